package report

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/digest"
)

// day is the digest of a small log.
func day(t *testing.T) *digest.Digest {
	t.Helper()
	f, err := os.Open("../digest/testdata/day.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := digest.New()
	var r declog.Record
	for in := declog.NewReader(f); ; b.Add(&r) {
		if err := in.Next(&r); err == io.EOF {
			d := b.Digest()
			return &d
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheReportOfALogNeedsNothingElseAndSaysWhatItTells(t *testing.T) {
	t.Parallel()
	times := digest.Times{Count: 160, Mean: 0.2, P50: 0.1, P90: 0.4, P99: 0.9}
	replay := &digest.WhatIf{Fleet: "fitted:2", Requests: 160, Own: "warm-cost", Good: "ttft=1s", Share: 0.95, RateMost: 2,
		Policies: []digest.Policy{{Name: "warm-cost", Measured: true, TTFT: times}, {Name: "warm-cost", HitRate: 0.5, TTFT: times}, {Name: "random", HitRate: 0.2, TTFT: times}},
		Loads:    []digest.Load{{Rate: 1, GoodShare: 1, TTFT: times}, {Rate: 2, GoodShare: 0.96, TTFT: times}, {Rate: 3, GoodShare: 0.5, TTFT: times}}}
	unlike := *replay
	unlike.Policies = slices.Clone(replay.Policies)
	unlike.Policies[1].TTFT.P50 = 0.35
	one := digest.New()
	one.Add(&declog.Record{Time: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Tenant: "<b>", Error: "<script>alert(1)</script>", Outcome: "failed"})
	single := one.Digest()
	for _, c := range []struct {
		in   Day
		want []string
	}{
		{Day{Digest: day(t), Replay: replay}, []string{"160 requests in 4.0 hours: 170k prompt tokens, 92.9k of them cached, 16.0k answer tokens; 5.62 % failed.",
			"Hit rate 0.547 of 0.583 that was reachable", "13 hits given up, 6355 tokens computed again", "<td>acme</td>", "<td>gpu-1:8000</td>", "no_worker 503: queue_full", "server_error 500",
			"no other policy comes to a shorter time to the first token than warm-cost: 200 ms", "There is room for 2 times the load; at 3 times 50.0 % of requests are good, fewer than 95 % (ttft=1s)."}},
		{Day{Digest: day(t), Replay: &unlike}, []string{"not like what was measured: a first token took 100 ms half of the time, and replayed on fitted:2 it takes 350 ms."}},
		{Day{Digest: &single, NoReplay: "no reason", Bad: 3}, []string{"1 request in 0 seconds", "100.00 % failed", "The log was not replayed: no reason.", "3 lines of the log", "&lt;script&gt;"}},
	} {
		c.in.Title, c.in.Command = "What <it> tells", "warmpath report 'a b'"
		var b bytes.Buffer
		if err := WriteDay(&b, c.in); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		for _, want := range c.want {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
		wholePage(t, page, 2)
	}
}

func TestNumbersAreWrittenInFewDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10.0k", 123_456: "123k", 1_000_000: "1.00M", 45_600_000: "45.6M", 7_000_000_000_000: "7.00T"} {
		if got := short(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
