//go:build e2evllm

package e2e

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// recordFlag has the sample that `make test` replays recorded anew: -record ../internal/kvevent/testdata/vllm_run.jsonl.gz
var recordFlag = flag.String("record", "", "file for what the engine published and reported, one request at a time")

// sampled is one line of a recording: a message, or a request with its tokens and what the engine reported of it. Requests share most of
// their tokens with one before, of which Keep leading ones are taken.
type sampled struct {
	Seq     *uint64  `json:"seq,omitempty"`
	Payload string   `json:"payload,omitempty"` // base64
	Like    int      `json:"like,omitempty"`    // number of a request before, from 1
	Keep    int      `json:"keep,omitempty"`
	IDs     []uint32 `json:"ids,omitempty"`
	Salt    string   `json:"salt,omitempty"`
	Cached  int      `json:"cached"`
	// Late is a request that met an engine that had been cleared while idle: it tells so only with its next step.
	Late bool `json:"late,omitempty"`
}

// listener hears a worker's messages.
type listener struct {
	conn *zmtp.Conn
	came chan sampled
	done sync.WaitGroup
}

func listen(t *testing.T, w *worker) *listener {
	t.Helper()
	conn, err := zmtp.Dial(t.Context(), "tcp://127.0.0.1:"+w.events, zmtp.SUB, zmtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Subscribe("kv"); err != nil {
		t.Fatal(err)
	}
	l := &listener{conn: conn, came: make(chan sampled, 1024)}
	l.done.Go(func() {
		defer close(l.came)
		for {
			frames, err := conn.Receive(nil)
			if err != nil || len(frames) != 3 {
				return
			}
			seq := binary.BigEndian.Uint64(frames[1])
			l.came <- sampled{Seq: &seq, Payload: base64.StdEncoding.EncodeToString(frames[2])}
		}
	})
	return l
}

func (l *listener) close() {
	_ = l.conn.Close()
	for range l.came {
	}
	l.done.Wait()
}

// all are the messages up to the next silence; an engine without a request publishes nothing.
func (l *listener) all() (heard []sampled) {
	for {
		select {
		case m, ok := <-l.came:
			if !ok {
				return heard
			}
			heard = append(heard, m)
		case <-time.After(200 * time.Millisecond):
			return heard
		}
	}
}

// Each request is sent when nothing else is under way, straight to one worker with a small cache.
func TestEachRequestReportsWhatTheEventsBeforeItSaid(t *testing.T) {
	const requests = 180
	seed := seedOf(t)
	w := newWorker(t, 0, 200)
	w.start(t)
	w.await(t)
	c := newCrowd(w.url(), seed, true, 30)
	l := listen(t, w)
	defer l.close()
	index := kvindex.New(kvindex.Options{})
	tracker := kvevent.NewTracker(index, kvevent.TrackerOptions{Seed: names, Model: vllmName, Rank: -1, Replay: true})
	defer tracker.Close()
	tracker.Connected()
	tracker.ReplayEnded(true) // it has published nothing yet
	var lines []sampled
	wrong, some, late := 0, 0, false
	for n := range requests {
		if n == requests*2/3 {
			w.reset(t)
			late = true
		}
		c.run(t.Context(), "one by one", 1, 1)
		a := c.asked[n]
		if a.failed != "" || a.usage.Details == nil {
			t.Fatalf("%s: %s, %+v", a.id, a.failed, a.usage)
		}
		line := sampled{Salt: a.salt, Cached: a.usage.Details.CachedTokens, Late: late}
		late = false
		for i, b := range c.asked[:n] {
			same := 0
			for same < min(len(a.prompt), len(b.prompt)) && a.prompt[same] == b.prompt[same] {
				same++
			}
			if same > line.Keep {
				line.Like, line.Keep = i+1, same
			}
		}
		line.IDs = a.prompt[line.Keep:]
		lines = append(lines, line)
		if told := predicted(index, a.prompt, a.salt); told != line.Cached && !line.Late {
			wrong++
			t.Errorf("seed %d: %s of %d tokens: the events say that %d are cached, the engine reports %d", seed, a.id, len(a.prompt), told, line.Cached)
		}
		if line.Cached > 0 {
			some++
		}
		for _, m := range l.all() {
			lines = append(lines, m)
			payload, _ := base64.StdEncoding.DecodeString(m.Payload)
			tracker.Live(*m.Seq, payload)
		}
	}
	s := tracker.Stats()
	t.Logf("seed %d: %d requests, %d with cached tokens, %d wrong; %d messages, %d blocks stored, %d removed, %d clears", seed, requests, some, wrong, s.Messages, s.Stored, s.Removed, s.Cleared)
	if s.State != kvevent.Exact || s.Removed == 0 || s.Cleared != 1 || s.Undecodable+s.UnknownEvents+s.Malformed > 0 {
		t.Errorf("%+v", s)
	}
	if *recordFlag != "" && !t.Failed() {
		record(t, *recordFlag, lines)
	}
}

// predicted is what an engine will report of a prompt: whole blocks, and never the last token.
func predicted(index *kvindex.Index, ids []uint32, salt string) int {
	depth, _ := index.Match(keys(ids[:len(ids)-1], salt), kvindex.Match{}).Of(0)
	return int(depth) * block
}

func record(t *testing.T, path string, lines []sampled) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	e := json.NewEncoder(z)
	for _, line := range lines {
		if err := e.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
