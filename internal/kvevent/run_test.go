package kvevent

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
)

// step is one line of a recorded run of a real engine: a message, or a request and what was reported of it. `make e2e-vllm` says how it is
// recorded.
type step struct {
	Seq     *uint64
	Payload string
	Like    int // number of a request before, from 1, whose first Keep tokens this one has too
	Keep    int
	IDs     []uint32
	Salt    string
	Cached  int
	Late    bool // its engine had been cleared while idle, and had no occasion to say so yet
}

// recordedRun are the steps of testdata/vllm_run.jsonl.gz.
func recordedRun(t *testing.T) (all []step) {
	t.Helper()
	f, err := os.Open("testdata/vllm_run.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(lines); ; {
		var s step
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
}

func TestWhatARealEngineReportsIsWhatItsEventsSaid(t *testing.T) {
	const block, model = 32, "tiny"
	seed := prefix.NewSeed([]byte("any"))
	x := kvindex.New(kvindex.Options{})
	tracker := NewTracker(x, TrackerOptions{Seed: seed, Model: model, Rank: -1, Replay: true})
	tracker.Connected()
	tracker.ReplayEnded(true) // it had published nothing yet

	var prompts [][]uint32
	ever := map[prefix.Key]bool{} // what a cache without a bound would hold, but for answers
	some, part := 0, 0
	for _, s := range recordedRun(t) {
		if s.Seq != nil {
			payload, err := base64.StdEncoding.DecodeString(s.Payload)
			if err != nil {
				t.Fatal(err)
			}
			if tracker.Live(*s.Seq, payload).Wanted {
				t.Fatalf("message %d: a message before it is asked for", *s.Seq)
			}
			continue
		}
		ids := s.IDs
		if s.Keep > 0 {
			ids = append(append([]uint32{}, prompts[s.Like-1][:s.Keep]...), s.IDs...)
		}
		prompts = append(prompts, ids)
		keys := prompt.TokenChain(seed, prefix.Chain{}, ids[:len(ids)-1], prompt.Blocks{Tokens: block, Model: model, Salt: s.Salt}).Keys
		depth, _ := x.Match(keys, kvindex.Match{}).Of(0)
		if s.Late {
			clear(ever)
		} else if int(depth)*block != s.Cached {
			t.Errorf("request %d of %d tokens: the events say that %d are cached, the engine reported %d", len(prompts), len(ids), int(depth)*block, s.Cached)
		}
		unbounded := 0
		for unbounded < len(keys) && ever[keys[unbounded]] {
			unbounded++
		}
		for _, k := range keys {
			ever[k] = true
		}
		if s.Cached > 0 {
			some++
			if s.Cached < unbounded*block {
				part++
			}
		}
	}
	s := tracker.Stats()
	if s.State != Exact || s.Removed < 500 || s.Cleared != 1 || s.Undecodable+s.Malformed+s.UnknownEvents+uint64(s.Orphans)+x.Stats().Counts.Unknown+x.Stats().Counts.Conflicts > 0 {
		t.Errorf("%+v, %+v", s, x.Stats())
	}
	if n := len(prompts); n < 100 || some*100 < 60*n || part*100 < 20*n {
		t.Errorf("of %d requests %d reported some cached tokens and %d part of what they had in common with requests before", n, some, part)
	}
}
