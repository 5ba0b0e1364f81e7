package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
)

// certificateSoon is how long before its end a certificate is worth a word.
const certificateSoon = 14 * 24 * time.Hour

// addTransport looks at how each worker is reached: by which certificate, and what passes in the clear. Workers on plain HTTP without a
// credential are left out: a network of their own is as good.
func addTransport(ctx context.Context, c config.Config, s *safety, reports []checkup.Report) {
	byID := map[string]config.Worker{}
	for _, w := range c.Workers {
		byID[w.ID] = w
	}
	for i := range reports {
		if check := transport(ctx, c, s, byID[reports[i].ID]); check.Part != "" {
			reports[i].Add(check)
		}
	}
}

func transport(ctx context.Context, c config.Config, s *safety, w config.Worker) checkup.Check {
	u, err := url.Parse(w.URL)
	if err != nil {
		return checkup.Check{}
	}
	check := checkup.Check{Part: "transport", Level: checkup.Full}
	if u.Scheme == "http" {
		ip := net.ParseIP(u.Hostname())
		if w.Key == "" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			return checkup.Check{}
		}
		check.Level, check.Found = checkup.Partly, "plain HTTP: the worker's credential and prompts pass in the clear"
		check.Gain = "an engine behind TLS, https:// in its URL, and worker_tls.ca for roots of your own"
		return check
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeouts.Connect)
	defer cancel()
	conn, err := s.certs.DialTLS(ctx, "tcp", addressOf(w.URL))
	if err != nil {
		check.Level, check.Found = checkup.Broken, err.Error()
		return check
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	leaf := state.PeerCertificates[0]
	check.Found = fmt.Sprintf("%s, certificate until %s", tls.VersionName(state.Version), leaf.NotAfter.UTC().Format(time.DateOnly))
	switch {
	case w.TLS.Insecure || w.TLS == (certs.WorkerFiles{}) && c.WorkerTLS.Insecure:
		check.Level, check.Without = checkup.Partly, "any certificate is taken (insecure_skip_verify): whoever stands in between reads along"
		check.Gain = "the roots of its certificate as tls.ca"
	case time.Until(leaf.NotAfter) < certificateSoon:
		check.Level, check.Gain = checkup.Partly, "a new certificate before that day: afterwards the worker is not reached"
	}
	return check
}
