package engine

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// keepAlive is how long an idle connection stays open: as short as the real engines' own servers keep it, so that a
// client's stale connections are met here too.
const keepAlive = 5 * time.Second

// headTimeout bounds the time a client takes to send a request's head.
const headTimeout = 10 * time.Second

// Serve runs the engine and its HTTP server on l until ctx ends. Then no new connections are taken, requests in the
// engine have drain to finish, and those that do not are cut off. It returns nil after such an end, else what broke.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	web := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headTimeout, IdleTimeout: keepAlive}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- s.Run(running) }()
	go func() { ended <- web.Serve(l) }()

	var first error
	left := 2
	select {
	case <-ctx.Done():
		draining, cancel := context.WithTimeout(running, drain)
		// Past the time the engine is stopped, which ends what still waits for it, and the connections are closed.
		_ = web.Shutdown(draining)
		cancel()
	case first = <-ended:
		left--
	}
	stop()
	_ = web.Close()
	for range left {
		if err := <-ended; first == nil {
			first = err
		}
	}
	if errors.Is(first, http.ErrServerClosed) {
		return nil
	}
	return first
}
