package traces

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/prefix"
)

func all(t *testing.T, x *Trace, seed uint64) (out []Request) {
	t.Helper()
	r, err := x.Reader(seed)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var q Request
		if err := r.Next(&q); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, q)
	}
}

func open(t *testing.T, name string) *Trace {
	t.Helper()
	x, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// common is how many leading blocks two prompts share.
func common(a, b Request) int {
	x, y := a.Keys(nil), b.Keys(nil)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func TestEachFormIsToldByItsContent(t *testing.T) {
	for _, c := range []struct {
		file, form      string
		block, requests int
		sessions        bool
		last            string
	}{
		{"mooncake.jsonl", "mooncake", 512, 12, false, ""},
		{"azure.csv", "azure", 16, 8, false, ""},
		{"sessions.jsonl.gz", "sessions", 64, 56, true, ""},
		{"texts.jsonl", "texts", 16, 3, false, ""},
		{"decisions.jsonl", "decisions", 16, 40, false, ""},
	} {
		x := open(t, "testdata/"+c.file)
		got := all(t, x, 1)
		if x.Form != c.form || x.BlockTokens != c.block || x.Sessions != c.sessions || len(got) != c.requests {
			t.Errorf("%s: form %s, blocks of %d, sessions %v, %d requests", c.file, x.Form, x.BlockTokens, x.Sessions, len(got))
		}
		for i, q := range got {
			if q.Prompt < 1 || len(q.Keys(nil)) > (q.Prompt+q.Output)/x.BlockTokens || i > 0 && !q.Follows && q.At < got[i-1].At && !x.Sessions {
				t.Errorf("%s, line %d: %+v", c.file, q.Line, q)
			}
		}
	}
}

func TestMooncakePromptsShareWhatTheirIdsShare(t *testing.T) {
	got := all(t, open(t, "testdata/mooncake.jsonl"), 1)
	if n := common(got[0], got[1]); n != 1 {
		t.Errorf("%d blocks in common, want 1", n)
	}
	// 6758 tokens are 13 blocks and a part, of which the trace names 14.
	if got[0].Prompt != 6758 || got[0].Output != 500 || len(got[0].Keys(nil)) != 13 {
		t.Errorf("%+v", got[0])
	}
}

func TestSessionsFollowAndShareTheirToolsWithOthers(t *testing.T) {
	x := open(t, "testdata/sessions.jsonl.gz")
	got := all(t, x, 1)
	begins := 0
	for i, q := range got {
		if !q.Follows {
			begins++
			continue
		}
		if q.Session != got[i-1].Session {
			t.Errorf("request %d follows another session's", i)
		}
	}
	if begins != 2 {
		t.Errorf("%d sessions, want 2", begins)
	}
	if n := common(got[1], got[2]); n*64 < got[1].Prompt/2 {
		t.Errorf("a follow-up shares %d blocks of %d tokens", n, got[1].Prompt)
	}
}

func TestSessionsWithEqualToolsAndSystemShareTheirHead(t *testing.T) {
	line := func(id string, tools int) string {
		return fmt.Sprintf(`{"id":%q,"block_size":64,"tool_tokens":%d,"system_tokens":64,"requests":[{"t":0,"in":640,"out":5,"think_time":0,"hash_ranges":[[1,10]]}]}`, id, tools)
	}
	got := all(t, open(t, write(t, "s.jsonl", line("a", 192)+"\n"+line("b", 192)+"\n"+line("c", 256)+"\n")), 0)
	if n := common(got[0], got[1]); n != 4 {
		t.Errorf("%d blocks in common, want the 4 of tools and system", n)
	}
	if n := common(got[0], got[2]); n != 0 {
		t.Errorf("%d blocks in common with another agent", n)
	}
}

func TestTextsShareWhatTheirBytesShare(t *testing.T) {
	got := all(t, open(t, "testdata/texts.jsonl"), 1)
	if common(got[0], got[1]) != 1 || common(got[0], got[2]) != 2 || got[0].Session != got[2].Session || got[2].At != 8*time.Second {
		t.Errorf("common %d and %d, %+v", common(got[0], got[1]), common(got[0], got[2]), got)
	}
}

func TestADecisionLogIsReplayedInTheOrderOfArrival(t *testing.T) {
	got := all(t, open(t, "testdata/decisions.jsonl"), 1)
	shared := 0
	for i, q := range got {
		if i > 0 && q.At < got[i-1].At {
			t.Errorf("request %d came before the one in front of it", i)
		}
		if i > 0 && common(got[0], q) > 0 {
			shared++
		}
		if q.Session == 0 || q.Output == 0 {
			t.Errorf("%+v", q)
		}
	}
	if got[0].At != 0 || shared == 0 {
		t.Errorf("first at %v, %d share with it", got[0].At, shared)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCompressionIsUndone(t *testing.T) {
	plain, err := os.ReadFile("testdata/mooncake.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	want := fmt.Sprint(all(t, open(t, "testdata/mooncake.jsonl"), 1))
	for _, text := range []string{gz.String(), zst.String()} {
		// The name says nothing.
		if got := fmt.Sprint(all(t, open(t, write(t, "trace", text)), 1)); got != want {
			t.Errorf("%.60s...", got)
		}
	}
}

func TestABadLineIsNamedByItsNumberOrLeftOutAndCounted(t *testing.T) {
	for form, text := range map[string]string{
		"mooncake": `{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1]}` + "\n%s\n" + `{"timestamp":9,"input_length":60,"output_length":5,"hash_ids":[]}` + "\n",
		"azure":    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n%s\r\n2023-11-16 18:17:04,5,8\r\n",
		"texts":    `{"timestamp":0,"input":"abc","output":"d"}` + "\n%s\n" + `{"timestamp":5,"input":"abc","output":"d"}`,
	} {
		for _, bad := range []string{`{"timestamp":`, `{"timestamp":1,"input_length":-3}`, "2023-11-16,x,9", "no", `{"input_length":7,"hash_ids":[]}`, "a,b,c,d"} {
			name := write(t, "trace", fmt.Sprintf(text, bad))
			x := open(t, name)
			line := map[string]int{"mooncake": 2, "azure": 3, "texts": 2}[form]
			r, err := x.Reader(1)
			if err != nil {
				t.Fatal(err)
			}
			var q Request
			given := 0
			for err == nil { // texts are read ahead
				if err = r.Next(&q); err == nil {
					given++
				}
			}
			if given > 1 {
				t.Errorf("%s, %q: %d requests before it", form, bad, given)
			}
			var le *LineError
			if !errors.As(err, &le) || le.Line != line || !strings.Contains(err.Error(), "--skip-bad") {
				t.Errorf("%s, %q: %v, want line %d", form, bad, err, line)
			}
			r.Close()
			if x, err = Open(name, Options{SkipBad: true}); err != nil {
				t.Fatal(err)
			}
			if got := all(t, x, 1); len(got) != 2 || x.Skipped() != 1 {
				t.Errorf("%s, %q: %d requests, %d skipped", form, bad, len(got), x.Skipped())
			}
		}
	}
}

func TestAFileThatIsNoTraceGetsTheFormsThatAre(t *testing.T) {
	for _, text := range []string{"", "hello\n", `{"a":1}` + "\n", "[1,2]\n"} {
		_, err := Open(write(t, "x", text), Options{})
		if err == nil || !strings.Contains(err.Error(), "hash_ids") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestATraceInMemoryIsTheTraceInItsFile(t *testing.T) {
	x := open(t, "testdata/mooncake.jsonl")
	want := fmt.Sprint(all(t, x, 1))
	if err := x.Load(1 << 20); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(all(t, x, 1)); got != want {
		t.Error("other requests")
	}
	small := open(t, "testdata/mooncake.jsonl")
	if err := small.Load(100); err != nil {
		t.Fatal(err)
	}
	if r, _ := small.Reader(1); r == nil {
		t.Error("no reader")
	} else if _, inMemory := r.(*list); inMemory {
		t.Error("a trace larger than its bound is in memory")
	} else {
		r.Close()
	}
}

func TestSyntheticTracesAreAskedForByTheirSettings(t *testing.T) {
	for kind, g := range generators {
		x := open(t, kind+":")
		a, b, c := all(t, x, 1), all(t, x, 1), all(t, x, 2)
		if fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) {
			t.Errorf("%s: seeds do not decide", kind)
		}
		for i, q := range a {
			if q.Prompt < 1 || i > 0 && !x.Sessions && q.At < a[i-1].At || len(q.Keys(nil))*16 > q.Prompt+q.Output {
				t.Errorf("%s: request %d is %+v", kind, i, q)
			}
		}
		for key := range g.defaults {
			if _, err := Open(kind+":"+key+"=0", Options{}); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s=0: %v", key, err)
			}
		}
		if _, err := Open(kind+":nonsense=3", Options{}); err == nil || !strings.Contains(err.Error(), "rate=") && !strings.Contains(err.Error(), "at-once=") {
			t.Errorf("%v", err)
		}
	}
}

func TestATurnBeginsWithAllThatCameBefore(t *testing.T) {
	for _, name := range []string{"chats:chats=3,turns=5", "agents:sessions=3"} {
		got := all(t, open(t, name), 1)
		for i, q := range got {
			if !q.Follows {
				continue
			}
			before := got[i-1]
			if n := common(before, q); n != len(before.Keys(nil)) || n*16 < before.Prompt {
				t.Errorf("%s: turn %d shares %d blocks of %d", name, i, n, len(before.Keys(nil)))
			}
		}
	}
}

func TestAgentsShareTheirToolsAndAnswerAsAgentsDo(t *testing.T) {
	got := all(t, open(t, "agents:sessions=100,context=60000"), 1)
	var answers []int
	for _, q := range got {
		if answers = append(answers, q.Output); q.Prompt+q.Output > 60_000 || common(q, got[0]) < 15_000/16 {
			t.Fatalf("%+v", q)
		}
	}
	slices.Sort(answers)
	if p50, p90 := answers[len(answers)/2], answers[len(answers)*9/10]; p50 < 180 || p50 > 240 || p90 < 650 || p90 > 1100 {
		t.Errorf("half of %d answers have %d tokens at most, nine of ten %d", len(answers), p50, p90)
	}
}

func TestAFitFindsTheConstantsOfTheEnginesThatAnswered(t *testing.T) {
	f, err := Fit([]string{"testdata/decisions.jsonl"}, false)
	if err != nil {
		t.Fatal(err)
	}
	// The log is of two simulated h100-32b-tp2: .0568 ms a prompt token, 15.6 ms a step.
	if k := f.Profile.Constants; k.B < .03e-3 || k.B > .12e-3 || k.D0 < 8e-3 || k.D0 > 24e-3 {
		t.Errorf("%+v from %d prefills and %d steps", k, f.Prefills, f.Steps)
	}
	if len(f.Kinds) != 1 || f.Kinds[0].Profile != f.Profile || len(f.Kinds[0].Workers) != 2 {
		t.Errorf("two workers that are alike: %+v", f.Kinds)
	}
}

func TestAFitTellsUnlikeWorkersApart(t *testing.T) {
	byWorker := map[string][]stay{}
	for name, times := range map[string]float64{"a": 1, "b": 1, "slow": 4} {
		for i := range 200 {
			prompt := 200 + 37*i%4000
			took := times * (1.3e-3 + 19.1e-6*float64(prompt))
			at := time.Unix(1_700_000_000+10*int64(i), 0)
			first := at.Add(time.Duration(took * 1e9))
			byWorker[name] = append(byWorker[name], stay{worker: name, dispatched: at, first: first, end: first.Add(time.Second), prompt: prompt, output: 100, gap: times * 6.3e-3})
		}
	}
	byWorker["new"] = byWorker["slow"][:3] // too few to tell
	var f Fitted
	f.learn(byWorker)
	if len(f.Kinds) != 2 || len(f.Kinds[0].Workers) != 3 || len(f.Kinds[1].Workers) != 1 || f.Kinds[1].Workers[0] != "slow" || f.Kinds[1].Profile.Name != "fitted-2" {
		t.Fatalf("%+v", f.Kinds)
	}
	if fast, slow := f.Kinds[0].Profile.Prefill(2000, 0), f.Kinds[1].Profile.Prefill(2000, 0); slow < 3*fast || slow > 5*fast {
		t.Errorf("2,000 tokens take %g s and %g s, really four times as long", fast, slow)
	}
}

func FuzzALineNeverBreaksTheReader(f *testing.F) {
	for _, name := range []string{"mooncake.jsonl", "azure.csv", "texts.jsonl", "decisions.jsonl"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			f.Add(line)
			break
		}
	}
	f.Add([]byte(`{"id":"a","block_size":64,"requests":[{"in":9,"out":1,"hash_ranges":[[1,18446744073709551615]]}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		defer leash.Hold(t, len(line))()
		var keys []prefix.Key
		for _, parse := range []parser{new(mooncake).parse, new(azure).parse, newTexts(time.Unix(0, 0)).parse, (&sessions{blockTokens: 64}).parse, (&decisions{blockTokens: 16}).parse} {
			all, _ := parse(line, nil)
			for _, q := range all {
				total := 0
				for _, r := range q.Blocks {
					total += int(r.Count)
				}
				if total > q.Prompt {
					t.Errorf("%d blocks of %d tokens", total, q.Prompt)
				}
				if total < 1<<16 {
					keys = q.Keys(keys[:0])
				}
			}
		}
	})
}
