package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// sample is a file of testdata: a small tokenizer, and what the reference makes of some strings with it (scripts/exact -sample).
type sample struct {
	Tokenizer json.RawMessage
	Strings   []string
	IDs       [][]uint32
	Wrapped   [][]uint32
}

func readSample(t testing.TB, name string) (s sample) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func samples(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(names) < 25 {
		t.Fatal(len(names), "samples,", err)
	}
	return names
}

func loaded(t testing.TB, file []byte) *Tokenizer {
	t.Helper()
	tk, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func TestIdsAreThoseOfTheReference(t *testing.T) {
	for _, name := range samples(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json.gz"), func(t *testing.T) {
			s := readSample(t, name)
			tk := loaded(t, s.Tokenizer)
			for i, text := range s.Strings {
				if got := tk.Encode(nil, text, Options{}); !slices.Equal(got, s.IDs[i]) {
					t.Errorf("%q: %v, the reference says %v", text, got, s.IDs[i])
				}
			}
			for i, want := range s.Wrapped {
				if got := tk.Encode(nil, s.Strings[i], Options{Wrap: true}); !slices.Equal(got, want) {
					t.Errorf("%q wrapped: %v, the reference says %v", s.Strings[i], got, want)
				}
			}
		})
	}
}

func TestSegmentsOneAfterTheOtherAreTheWholeText(t *testing.T) {
	for _, name := range samples(t) {
		s := readSample(t, name)
		tk := loaded(t, s.Tokenizer)
		all := strings.Join(s.Strings, "")
		for _, text := range append(s.Strings, all) {
			for _, o := range []Options{{}, {PlainSpecial: true}} {
				var ids []uint32
				for _, segment := range tk.Segments(nil, text, o) {
					ids = tk.EncodeSegment(ids, segment, o)
				}
				if want := tk.Encode(nil, text, o); !slices.Equal(ids, want) {
					t.Fatalf("%s: %q by segments: %v, whole %v", name, text, ids, want)
				}
			}
		}
	}
}

func TestManyGoroutinesMayEncodeAtOnce(t *testing.T) {
	for _, name := range samples(t)[:4] {
		s := readSample(t, name)
		tk := loaded(t, s.Tokenizer)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range s.Strings {
					at := (i*(g+1) + g) % len(s.Strings)
					if got := tk.Encode(nil, s.Strings[at], Options{}); !slices.Equal(got, s.IDs[at]) {
						t.Errorf("%s: %q: %v", name, s.Strings[at], got)
					}
				}
			})
		}
		all.Wait()
	}
}
