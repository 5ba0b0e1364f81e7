package declog

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t *testing.T, o Options) *Writer {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "decisions.jsonl")
	}
	w, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// read reads all records of some files, in order.
func read(t *testing.T, paths ...string) []Record {
	t.Helper()
	var all []Record
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for d := NewReader(bytes.NewReader(b)); ; {
			var r Record
			if err := d.Next(&r); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all = append(all, r)
		}
	}
	return all
}

func TestARecordComesBackAsItWasWritten(t *testing.T) {
	w := create(t, Options{})
	want := Record{Time: time.Date(2026, 11, 29, 20, 0, 0, 123456789, time.UTC), ID: "req-1", API: "chat", Model: "m<&>\n", Adapter: "a", Tenant: "t", Session: "00ff", Stream: true,
		PromptBytes: 4000, PromptTokensEst: 1000, MaxTokens: 64, PromptTokens: 1010, CompletionTokens: 60, CachedTokens: 512, CachedTokensEst: 500, BestMatchedTokens: 900, StreamedTokenCount: 60,
		Metered: true, CachedReported: true, Policy: "warm-cost", Worker: "b", Hit: "declined", Relaxed: "kv", Reason: "its queue costs more than the prefill",
		Rows:  []Row{{Worker: "b", MatchedTokens: 500, QueuedSeconds: .1, PrefillSeconds: .2, Price: 3, DecodeSeconds: .4, BatchSeconds: .5, TotalSeconds: 1.2, InFlight: 2}, {Worker: "a", Why: "draining"}},
		Tries: []Try{{Worker: "c", Class: "reset", Status: 502}}, Outcome: "succeeded", Status: 200, Error: "none",
		DecisionSeconds: 3e-5, QueueSeconds: .001, TTFTSeconds: .25, E2ESeconds: 2, ITLP50Seconds: .02, ITLMaxSeconds: .3}
	r := w.Record()
	rows, tries := r.Rows, r.Tries
	*r = want
	r.Rows, r.Tries = append(rows, want.Rows...), append(tries, want.Tries...)
	SetKeys(r, []uint64{7, 8, 9})
	if !w.Log(r) {
		t.Fatal("no room for one record")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, w.opts.Path)
	want.V, want.Boot, want.Blocks = Version, w.boot, []Run{{1, 3}}
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if s := w.Stats(); s != (Stats{Written: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestARecycledRecordCarriesNothingOver(t *testing.T) {
	w := create(t, Options{})
	for range 50 {
		r := w.Record()
		if r.ID != "" || len(r.Rows)+len(r.Tries)+len(r.keys)+len(r.Blocks) != 0 || r.Metered {
			t.Fatalf("a fresh record holds %+v", r)
		}
		r.ID, r.Metered, r.Rows, r.Tries = "x", true, append(r.Rows, Row{}), append(r.Tries, Try{})
		SetKeys(r, []uint64{1, 2})
		w.Log(r)
	}
}

func TestWhatOthersClaimIsCutToItsBounds(t *testing.T) {
	w := create(t, Options{})
	r := w.Record()
	r.Model, r.Error = strings.Repeat("m", 10_000), strings.Repeat("é", 10_000)
	r.Rows, r.Tries = make([]Row, 500), make([]Try, 500)
	keys := make([]uint64, keysMax+1)
	for i := range keys {
		keys[i] = uint64(i % 3) // never a run
	}
	SetKeys(r, keys)
	w.Log(r)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, w.opts.Path)[0]
	if len(got.Model) != stringBytesMax || len(got.Error) > reasonBytesMax+2 || len(got.Rows) != rowsMax || len(got.Tries) != triesMax || !got.BlocksCut || len(got.Blocks) != runsMax {
		t.Errorf("model %d, error %d bytes, %d rows, %d tries, %d runs", len(got.Model), len(got.Error), len(got.Rows), len(got.Tries), len(got.Blocks))
	}
}

func TestANumberWithoutAJSONWordCostsItsRecordOnly(t *testing.T) {
	w := create(t, Options{})
	for _, v := range []float64{1, math.NaN(), math.Inf(1), 2} {
		r := w.Record()
		r.TTFTSeconds = v
		w.Log(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, w.opts.Path); len(got) != 2 || w.Stats() != (Stats{Written: 2, Dropped: 2}) {
		t.Errorf("%d records, %+v", len(got), w.Stats())
	}
}

func TestALineReachesTheFileWithinTheFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := create(t, Options{FlushInterval: time.Second})
		w.Log(w.Record())
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		if got := read(t, w.opts.Path); len(got) != 1 || w.Stats().Written != 1 {
			t.Errorf("%d records after the interval, %+v", len(got), w.Stats())
		}
		w.Close()
	})
}

func TestFilesAreRotatedBySizeAndTheOldestGoes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d.jsonl")
	w := create(t, Options{Path: path, FileBytesMax: 2000, FilesMax: 2})
	for i := range 200 {
		r := w.Record()
		r.ID = fmt.Sprintf("%03d", i)
		w.Log(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 3 || w.Stats().Written != 200 || w.Stats().Rotated < 3 {
		t.Fatalf("files %v, %+v", names, w.Stats())
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() > 2000 || info.Size() == 0 {
			t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
		}
	}
	var ids []string
	for _, r := range read(t, path+".2", path+".1", path) {
		ids = append(ids, r.ID)
	}
	if !slices.IsSorted(ids) || ids[len(ids)-1] != "199" || len(ids) < 10 {
		t.Errorf("oldest to youngest: %v", ids)
	}
}

func TestAFullQueueDropsAndCountsAndNeverWaits(t *testing.T) {
	for _, o := range []Options{{QueueMax: 10}, {QueueBytesMax: 10 << 10}} {
		synctest.Test(t, func(t *testing.T) {
			o.Path = filepath.Join(t.TempDir(), "d.jsonl")
			w := create(t, o)
			taken := 0
			for range 5000 { // faster than one goroutine can encode and write
				if w.Log(w.Record()) {
					taken++
				}
			}
			w.Close()
			if s := w.Stats(); s.Written != uint64(taken) || s.Dropped != uint64(5000-taken) || taken < 5 || w.queuedBytes.Load() != 0 {
				t.Errorf("%d taken, %+v, %d bytes queued", taken, s, w.queuedBytes.Load())
			}
		})
	}
}

func TestARecordTooLargeForTheQueueIsDroppedAtOnce(t *testing.T) {
	w := create(t, Options{QueueBytesMax: 4096})
	r := w.Record()
	SetKeys(r, make([]uint64, 1000))
	if w.Log(r) || w.Stats().Dropped != 1 {
		t.Errorf("a record of 8,000 bytes found room in 4,096: %+v", w.Stats())
	}
	if !w.Log(new(Record)) {
		t.Error("its bytes are still counted")
	}
}

func TestClosingLosesNoRecordUncounted(t *testing.T) {
	w := create(t, Options{})
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range 500 {
				r := w.Record()
				SetKeys(r, []uint64{1, 2, 3})
				w.Log(r)
			}
		})
	}
	w.Close()
	senders.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := w.Stats()
	if s.Written+s.Dropped != 2000 || len(read(t, w.opts.Path)) != int(s.Written) {
		t.Errorf("%+v of 2,000, %d in the file", s, len(read(t, w.opts.Path)))
	}
	if w.Log(w.Record()) {
		t.Error("a closed writer took a record")
	}
}

func TestADiskThatRefusesIsCountedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		w := create(t, Options{Path: filepath.Join(dir, "d.jsonl"), FileBytesMax: 1 << 20})
		log := func(id string) {
			r := w.Record()
			r.ID = id
			w.Log(r)
			<-time.After(1500 * time.Millisecond)
			synctest.Wait()
		}
		log("first")
		w.out.f.Close() // as a disk that fails: every write is an error
		log("lost")
		if s := w.Stats(); s != (Stats{Written: 1, Dropped: 1}) {
			t.Errorf("%+v", s)
		}
		os.RemoveAll(dir)
		log("no folder")
		os.Mkdir(dir, 0o755)
		log("second")
		if err := w.Close(); err != nil || w.Stats() != (Stats{Written: 2, Dropped: 2}) {
			t.Errorf("%v, %+v", err, w.Stats())
		}
		if got := read(t, w.opts.Path); len(got) != 1 || got[0].ID != "second" {
			t.Errorf("in the new file: %+v", got)
		}
	})
}

func TestAFileThatCannotBeOpenedIsToldAtOnce(t *testing.T) {
	for _, path := range []string{"", t.TempDir(), "/no/such/folder/d.jsonl"} {
		if w, err := Create(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "--decision-log") {
			t.Errorf("%q: %v", path, err)
			w.Close()
		}
	}
}

func TestThePageTellsEveryFieldOfTheSchema(t *testing.T) {
	page, err := os.ReadFile("../../docs/DECISION-LOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{Record{}, Row{}, Try{}} {
		for i := range reflect.TypeOf(v).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			if name != "" && !bytes.Contains(page, []byte("| `"+name+"` |")) {
				t.Errorf("docs/DECISION-LOG.md does not tell of %q", name)
			}
		}
	}
}

func BenchmarkLog(b *testing.B) {
	w, err := Create(Options{Path: filepath.Join(b.TempDir(), "d.jsonl"), FileBytesMax: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	keys := make([]uint64, 1500)
	for i := range keys {
		keys[i] = rand.Uint64()
	}
	b.ReportAllocs()
	for b.Loop() {
		r := w.Record()
		SetKeys(r, keys)
		for range 8 {
			r.Rows = append(r.Rows, Row{Worker: "worker-1", MatchedTokens: 4096, TotalSeconds: .123})
		}
		w.Log(r)
	}
	s := w.Stats()
	b.ReportMetric(float64(s.Dropped)/float64(b.N), "dropped/op")
}
