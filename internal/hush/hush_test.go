package hush

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pages are what was logged, for whoever writes and reads at the same time.
type pages struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *pages) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func (p *pages) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.Reset()
}

// book is a log that a test reads line by line.
func book(t *Table) (*slog.Logger, *pages) {
	p := &pages{}
	return slog.New(t.Limit(slog.NewTextHandler(p, nil))), p
}

func TestOfAStormSoManyLinesAreLoggedAndTheRestIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(3, "request")
		log, out := book(table)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- table.Run(ctx, log) }()
		for i := range 1000 {
			log.With("request", i).Error("the worker broke", "worker", i%7)
			log.Info("request", "number", i)
		}
		log.Warn("something else")
		if got := strings.Count(out.String(), "the worker broke"); got != 3 {
			t.Errorf("%d lines of the storm, want 3", got)
		}
		if got := strings.Count(out.String(), "msg=request"); got != 1000 {
			t.Errorf("%d lines of the exempt message, want all 1000", got)
		}
		if !strings.Contains(out.String(), "something else") {
			t.Error("another message was left out with it")
		}
		out.Reset()
		time.Sleep(Window + tellEvery)
		synctest.Wait()
		if text := out.String(); !strings.Contains(text, `level=ERROR msg="`+toldAs+`" message="the worker broke" left_out=997`) {
			t.Errorf("a minute later the log says %q", text)
		}
		out.Reset()
		for range 4 {
			log.Error("the worker broke")
		}
		stop()
		<-ended
		if text := out.String(); strings.Count(text, `msg="the worker broke"`) != 3 || !strings.Contains(text, "left_out=1") {
			t.Errorf("in the next minute and at the end the log says %q", text)
		}
		if table.Left() != 998 {
			t.Errorf("%d lines are counted as left out, want 998", table.Left())
		}
	})
}

func TestWithoutABoundEveryLineIsLogged(t *testing.T) {
	table := NewTable(0)
	log, out := book(table)
	for range 500 {
		log.Error("again")
	}
	if got := strings.Count(out.String(), "again"); got != 500 {
		t.Errorf("%d lines, want 500", got)
	}
}

func TestMessagesThatAreMadeUpAsTheyComeShareOneCount(t *testing.T) {
	table := NewTable(2)
	log, out := book(table)
	for i := range 10 * messagesMax {
		log.Error(fmt.Sprint("message ", i))
	}
	if got := strings.Count(out.String(), "message "); got != messagesMax+2 || len(table.all) != messagesMax+1 {
		t.Errorf("%d lines and %d messages held, want %d and %d", got, len(table.all), messagesMax+2, messagesMax+1)
	}
	table.tell(log, time.Now().Add(Window))
	table.tell(log, time.Now().Add(2*Window))
	if len(table.all) != 0 {
		t.Errorf("%d messages are still held long after", len(table.all))
	}
}
