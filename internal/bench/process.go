package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/child"
)

const startTimeout = 60 * time.Second

// ready waits until a request through the process is answered well.
func ready(ctx context.Context, p *child.Process, request []byte) error {
	limit := time.Now().Add(startTimeout)
	var last error
	for time.Now().Before(limit) && ctx.Err() == nil {
		select {
		case <-p.Ended():
			return fmt.Errorf("%s ended at its start: %s", p.Name, p.LastWords())
		default:
		}
		k := newClient(p.Addr)
		_, last = k.ask(request, nil)
		k.close()
		if last == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not answer within %v: %w", p.Name, startTimeout, last)
}

// workers are mock workers in a process of their own.
type workers struct {
	*child.Process
	urls []string
}

// MockCommand is the argument that makes the binary play mock workers; their number follows.
const MockCommand = "bench-workers"

func startWorkers(ctx context.Context, o Options, n int) (*workers, error) {
	file, err := os.CreateTemp("", "warmpath-bench-*")
	if err != nil {
		return nil, err
	}
	file.Close()
	defer os.Remove(file.Name())
	p, err := child.Start("mock workers", "", []string{o.Self, MockCommand, strconv.Itoa(n), file.Name()})
	if err != nil {
		return nil, err
	}
	w := &workers{Process: p}
	for limit := time.Now().Add(startTimeout); time.Now().Before(limit) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(file.Name()); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			w.urls = strings.Fields(string(b))
			w.Addr = strings.TrimPrefix(w.urls[0], "http://")
			return w, nil
		}
	}
	p.Stop()
	return nil, fmt.Errorf("the mock workers did not start: %s", p.LastWords())
}

func (w *workers) behave(b behaviour) error {
	_, err := mockGet(w.urls[0], fmt.Sprintf("/behave?events=%d&pace=%s&hold=%s", b.Events, b.Pace, b.Hold))
	return err
}

// served are the requests that each worker has answered.
func (w *workers) served() (n []int, err error) {
	b, err := mockGet(w.urls[0], "/counts")
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	return n, err
}
