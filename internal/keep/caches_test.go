package keep

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/truth"
)

func someCaches(blocks int) Caches {
	c := Caches{Saved: noon, Seed: "ab12", Records: map[int][]prefix.Record{},
		Workers: []CachedWorker{{ID: "a", URL: "http://a:8000", Slot: 3, Started: 1.5e9, Truth: &truth.Kept{Trusted: true, Trust: 0.75}}, {ID: "b", URL: "http://b:8000", Slot: 7, Started: 2}}}
	for i := range blocks {
		slot := 3 + i%2*4
		c.Records[slot] = append(c.Records[slot], prefix.Record{Slot: slot, Key: prefix.Key(i + 1), Parent: prefix.Key(i), Size: uint16(i), Stamp: uint32(i) << 20})
	}
	return c
}

func written(t testing.TB, c Caches) []byte {
	var out bytes.Buffer
	w := NewCachesWriter(&out)
	for slot := range 10 {
		w.Append(c.Records[slot])
	}
	if err := w.End(c); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCachesThatAreWrittenAreReadAgain(t *testing.T) {
	for _, blocks := range []int{0, 1, 20_000} {
		want := someCaches(blocks)
		got, err := ReadCaches(bytes.NewReader(written(t, want)), noon.Add(time.Minute), time.Hour, "ab12", blocks)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%d blocks: %v", blocks, err)
		}
	}
}

func TestAFileOfCachesCutOrChangedAnywhereIsNone(t *testing.T) {
	want := someCaches(40)
	text := written(t, want)
	read := func(text []byte) (*Caches, error) {
		return ReadCaches(bytes.NewReader(text), noon, time.Hour, "ab12", 100)
	}
	for i := range text {
		if _, err := read(text[:i]); err == nil {
			t.Errorf("cut after %d of %d bytes it is taken", i, len(text))
		}
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if got, err := read(changed); err == nil && !reflect.DeepEqual(*got, want) {
			t.Errorf("with byte %d of %d changed it is taken for something else", i, len(text))
		}
	}
	if _, err := read(append(bytes.Clone(text), '\n')); err == nil {
		t.Error("with something behind its end it is taken")
	}
}

func TestCachesOfAnotherVersionAgeSeedOrSizeSaySo(t *testing.T) {
	text := written(t, someCaches(40))
	for _, c := range []struct {
		what, seed string
		text       []byte
		at         time.Time
		most       int
		want       string
		is         error
	}{
		{"another version", "ab12", []byte(strings.Replace(string(text), "caches 1", "caches 2", 1)), noon, 100, "this warmpath's is 1", ErrVersion},
		{"too old", "ab12", text, noon.Add(2 * time.Hour), 100, "state_max_age", ErrTooOld},
		{"of tomorrow", "ab12", text, noon.Add(-2 * time.Hour), 100, "state_max_age", ErrTooOld},
		{"another secret", "cd34", text, noon, 100, "state_dir", ErrVersion},
		{"too large", "ab12", text, noon, 39, "index_bytes_max", nil},
	} {
		_, err := ReadCaches(bytes.NewReader(c.text), c.at, time.Hour, c.seed, c.most)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func FuzzReadCaches(f *testing.F) {
	f.Add(written(f, someCaches(3)))
	f.Add(fmt.Appendf(nil, "warmpath-caches %d\n\x01\x00\x00\x00", CachesVersion))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		got, err := ReadCaches(bytes.NewReader(text), noon, time.Hour, "ab12", 1000)
		if err == nil && got == nil {
			t.Error("neither an error nor anything")
		}
		if err != nil {
			return
		}
		for _, records := range got.Records {
			prefix.Arrange(records)
		}
	})
}
