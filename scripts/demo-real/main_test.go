package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAProcessThatEndsByItselfEndsTheOthersAndShowsWhatItSaid(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	running := &processes{folder: t.TempDir(), end: end}
	for name, script := range map[string]string{"stays": "exec sleep 60", "fails": "echo no memory; exit 3"} {
		if err := running.start(ctx, name, "/bin/sh", "-c", script); err != nil {
			t.Fatal(err)
		}
	}
	running.wait()
	if err := context.Cause(ctx); err == nil || !strings.Contains(err.Error(), "fails ended by itself: exit status 3\nno memory") {
		t.Error(err)
	}
	if err := running.start(ctx, "none", "/no/such/program"); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Error(err)
	}
}

// playBefore plays a chat before a router whose answers after the first have so many tokens cached.
func playBefore(t *testing.T, cached int) error {
	t.Helper()
	var turns atomic.Int64
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			turns.Add(1)
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Three \"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"weeks.\"}}]}\n\ndata: [DONE]\n\n")
			return
		}
		n := 0
		if turns.Load() > 1 {
			n = cached
		}
		fmt.Fprintf(w, `{"decisions":[{"worker":"w","prompt_tokens":500,"cached_tokens":%d}]}`, n)
	}))
	defer router.Close()
	defer http.DefaultClient.CloseIdleConnections()
	address := strings.TrimPrefix(router.URL, "http://")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return play(ctx, address, address)
}

func TestAChatWhoseLaterTurnsFindNothingCachedFails(t *testing.T) {
	if err := playBefore(t, 400); err != nil {
		t.Error(err)
	}
	if err := playBefore(t, 0); err == nil || err.Error() != "turn 2 found nothing cached" {
		t.Error(err)
	}
}

func TestWhoIsInterruptedDoesNotWaitForAServer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if err := answers(ctx, "http://127.0.0.1:1/"); !errors.Is(err, why) {
		t.Error(err)
	}
}
