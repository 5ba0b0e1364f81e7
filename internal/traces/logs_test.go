package traces

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func openLogs(t *testing.T, names ...string) *Trace {
	t.Helper()
	x, err := OpenLogs(names, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func zip(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// asked is what a replay sees of requests: not which line they stood in.
func asked(all []Request) string {
	for i := range all {
		all[i].Line = 0
	}
	return fmt.Sprint(all)
}

func TestALogInSeveralFilesIsTheLogInOne(t *testing.T) {
	whole, err := os.ReadFile("testdata/decisions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := asked(all(t, open(t, "testdata/decisions.jsonl"), 1))
	lines := slices.Collect(bytes.Lines(whole))
	join := func(from, to int) []byte { return bytes.Join(lines[from:to], nil) }

	folder := t.TempDir()
	name := filepath.Join(folder, "d.jsonl")
	for file, text := range map[string]string{
		"d.jsonl": "", "d.jsonl.1": string(join(25, len(lines))), "d.jsonl.2.gz": zip(t, join(10, 25)), "d.jsonl.3": string(join(0, 10)), "d.jsonl.5": "not one of them",
	} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	files := Rotated(name)
	if len(files) != 4 || files[3] != name || files[0] != name+".3" {
		t.Fatalf("%q", files)
	}
	if got := asked(all(t, openLogs(t, files...), 1)); got != want {
		t.Errorf("other requests:\n%s\nwant\n%s", got, want)
	}
	// Their order on the command line says nothing, and naming one twice does not double it.
	if got := asked(all(t, openLogs(t, name+".1", name+".3", name+".2.gz", name+".1", name), 1)); got != want {
		t.Error("another order of files gives other requests")
	}
	f, err := Fit(files, false)
	if err != nil {
		t.Fatal(err)
	}
	if one, err := Fit([]string{"testdata/decisions.jsonl"}, false); err != nil || f.Profile != one.Profile || f.Records != one.Records {
		t.Errorf("%+v of several files, %+v of one, %v", f, one, err)
	}
}

// record is a line of a log.
func record(boot string, at time.Duration, tokens int) string {
	when := time.Unix(1_700_000_000, 0).Add(at).UTC().Format(time.RFC3339Nano)
	return fmt.Sprintf(`{"v":1,"boot":%q,"time":%q,"prompt_tokens":%d,"completion_tokens":3,"metered":true}`+"\n", boot, when, tokens)
}

func TestLogsOfSeveralRoutersAreMergedByArrival(t *testing.T) {
	var one, two strings.Builder
	for i := range 50 {
		one.WriteString(record("a", time.Duration(2*i+1)*time.Hour, 100+2*i))
		two.WriteString(record("b", time.Duration(2*i)*time.Hour, 99+2*i))
	}
	got := all(t, openLogs(t, write(t, "a", one.String()), write(t, "b", two.String())), 1)
	if len(got) != 100 {
		t.Fatalf("%d requests", len(got))
	}
	for i, q := range got {
		if q.Prompt != 99+i || q.At != time.Duration(i)*time.Hour {
			t.Fatalf("request %d: %+v", i, q)
		}
	}
}

func TestFilesThatDoNotOverlapAreNotOpenTogether(t *testing.T) {
	var names []string
	for day := range 5 {
		names = append(names, write(t, "log", record("a", time.Duration(day)*24*time.Hour, 10)+record("a", time.Duration(day)*24*time.Hour+time.Minute, 10)))
	}
	r, err := openLogs(t, names...).Reader(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var q Request
	for n := 0; r.Next(&q) == nil; n++ {
		if at := r.(*logs).at; len(at) > 1 {
			t.Errorf("%d files are open at request %d", len(at), n)
		}
	}
}

func TestTextsComeInTheOrderOfTheirTimesFromAnyFile(t *testing.T) {
	line := func(us int64, text string) string {
		return fmt.Sprintf(`{"timestamp":%d,"input":%q,"output":"ok","session_id":"s"}`+"\n", 1_760_000_000_000_000+us, text)
	}
	long := strings.Repeat("the same beginning ", 20)
	one := write(t, "one", line(4_000_000, long+"four")+line(0, "zero")+line(2_000_000, long+"and two"))
	two := write(t, "two", line(3_000_000, "three")+line(1_000_000, long+"one"))
	got := all(t, openLogs(t, two, one), 1)
	if len(got) != 5 || common(got[1], got[4]) < 5 {
		t.Fatalf("%d requests, %+v", len(got), got)
	}
	for i, q := range got {
		if q.At != time.Duration(i)*time.Second {
			t.Errorf("request %d at %v", i, q.At)
		}
	}
	if alone := all(t, open(t, one), 1); len(alone) != 3 || alone[2].At != 4*time.Second {
		t.Errorf("%+v", alone)
	}
	if _, err := OpenLogs([]string{one, "testdata/decisions.jsonl"}, Options{}); err == nil || !strings.Contains(err.Error(), "they are no one trace") {
		t.Errorf("%v", err)
	}
}

func TestSeveralFilesMustAllBeLogs(t *testing.T) {
	other := write(t, "other", `{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1]}`+"\n")
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"testdata/decisions.jsonl", other}, other},
		{[]string{"testdata/decisions.jsonl", write(t, "noise", strings.Repeat("noise\n", 5000))}, "first 1000 lines"},
		{[]string{write(t, "empty", "")}, "no record"},
		{[]string{"testdata/decisions.jsonl", filepath.Join(t.TempDir(), "none")}, "none"},
	} {
		if _, err := OpenLogs(c.names, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.names, err)
		}
	}
}

func TestABadLineOfALogIsNamedWithItsFile(t *testing.T) {
	good, bad := write(t, "good", record("a", 0, 10)), write(t, "torn", record("a", time.Second, 10)+`{"v":1,"boot":"a","ti`)
	r, err := openLogs(t, good, bad).Reader(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var q Request
	for err == nil {
		err = r.Next(&q)
	}
	if want := bad + ", line 2: "; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
	x, err := OpenLogs([]string{good, bad}, Options{SkipBad: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, x, 1); len(got) != 2 || x.Skipped() != 1 {
		t.Errorf("%d requests, %d lines left out", len(got), x.Skipped())
	}
}

// sessionsOf gathers requests by session, in the order in which those come.
func sessionsOf(all []Request) (ids []uint64, lengths map[uint64][]int) {
	lengths = map[uint64][]int{}
	for _, q := range all {
		if !q.Follows {
			ids = append(ids, q.Session)
		}
		lengths[q.Session] = append(lengths[q.Session], q.Prompt)
	}
	return ids, lengths
}

func TestASeedDrawsAnOrderOfSessionsAndKeepsEachWhole(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, `{"id":"s%d","requests":[{"in":%d,"out":1,"think_time":0},{"in":%d,"out":1,"think_time":10}]}`+"\n", i, 100+i, 200+i)
	}
	x := open(t, write(t, "s", text.String()))
	stand, want := sessionsOf(all(t, x, 0))
	for seed := uint64(1); seed < 4; seed++ {
		first, second := all(t, x, seed), all(t, x, seed)
		if fmt.Sprint(first) != fmt.Sprint(second) {
			t.Errorf("seed %d is not one order", seed)
		}
		ids, got := sessionsOf(first)
		if slices.Equal(ids, stand) || len(ids) != len(stand) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: %d sessions, %v", seed, len(ids), ids)
		}
		for _, q := range first {
			if q.Follows && (q.Think < 9*time.Second || q.Think > 11*time.Second) {
				t.Errorf("seed %d: thinks for %v", seed, q.Think)
			}
		}
	}
}

func TestATraceThatIsCutOffEndsThere(t *testing.T) {
	whole, err := os.ReadFile("testdata/decisions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	zipped := zip(t, whole)
	name := filepath.Join(t.TempDir(), "d.jsonl.gz")
	if err := os.WriteFile(name, []byte(zipped[:len(zipped)-20]), 0o666); err != nil {
		t.Fatal(err)
	}
	read := func(skipBad bool) (n, skipped int, err error) {
		x, err := OpenLogs([]string{name}, Options{SkipBad: skipBad})
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Reader(1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for q := (Request{}); ; n++ {
			if err := r.Next(&q); err != nil {
				return n, x.Skipped(), err
			}
		}
	}
	if _, _, err := read(false); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("%v", err)
	}
	if n, skipped, err := read(true); err != io.EOF || skipped != 1 || n == 0 {
		t.Errorf("%d requests, %d bad lines, %v", n, skipped, err)
	}
}

func TestACompressedLogThatIsDamagedIsReadAsFarAsItIsWhole(t *testing.T) {
	var frames [][]byte
	coder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		frames = append(frames, coder.EncodeAll(fmt.Appendf(nil, `{"v":1,"boot":"b","id":"r%d","time":"2026-11-30T12:00:0%dZ","prompt_tokens_est":64,"blocks":[[%d,4]],"stream":true,"outcome":"succeeded"}`+"\n", i, i, 1+4*i), nil))
	}
	for what, change := range map[string]func(frame []byte) []byte{
		"a frame that is cut": func(f []byte) []byte { return f[:len(f)/2] },
		"a bit":               func(f []byte) []byte { f = bytes.Clone(f); f[len(f)/2] ^= 0x10; return f },
		"no frame":            func([]byte) []byte { return []byte("garbage") },
	} {
		name := filepath.Join(t.TempDir(), "d.jsonl")
		text := bytes.Join([][]byte{frames[0], frames[1], change(frames[2]), frames[3]}, nil)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		trace, err := OpenLogs([]string{name}, Options{SkipBad: true})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		in, err := trace.Reader(0)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for r := (Request{}); ; n++ {
			if err = in.Next(&r); err != nil {
				break
			}
		}
		if in.Close(); err != io.EOF || n < 2 || trace.Skipped() != 1 {
			t.Errorf("%s: %d requests, %d bad lines, %v", what, n, trace.Skipped(), err)
		}
	}
}
