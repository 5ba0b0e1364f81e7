package keep

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/leash"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func learned() *cost.Kept {
	o, r := cost.NewOutputs(0), cost.NewRatio()
	o.Learn("m", "search", 120)
	r.Learn("m", 4000, 1000)
	return cost.Keep(cost.NewBook(cost.DefaultOptions()), o, r)
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	text, err := Encode(noon, learned())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text, noon.Add(14*time.Minute), 15*time.Minute)
	if err != nil || !reflect.DeepEqual(got, learned()) {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestAFileCutAnywhereOrChangedAnywhereIsNone(t *testing.T) {
	text, err := Encode(noon, learned())
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		if _, err := Decode(text[:i], noon, time.Hour); err == nil {
			t.Errorf("cut after %d of %d bytes it is taken", i, len(text))
		}
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if got, err := Decode(changed, noon, time.Hour); err == nil && !reflect.DeepEqual(got, learned()) {
			t.Errorf("with byte %d of %d changed it is taken for something else", i, len(text))
		}
	}
}

func TestAFileOfAnotherVersionOrAgeSaysSo(t *testing.T) {
	text, err := Encode(noon, learned())
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), fmt.Sprintf("learned %d ", Version), fmt.Sprintf("learned %d ", Version+1), 1)
	if _, err := Decode([]byte(other), noon, time.Hour); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	for _, at := range []time.Time{noon.Add(16 * time.Minute), noon.Add(-time.Hour)} {
		if _, err := Decode(text, at, 15*time.Minute); !errors.Is(err, ErrTooOld) || !strings.Contains(err.Error(), "state_max_age") {
			t.Errorf("read at %s: %v", at, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	text, err := Encode(noon, learned())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("warmpath-learned 1 00\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		if kept, err := Decode(text, noon, time.Hour); err == nil && kept == nil {
			t.Error("neither an error nor anything")
		}
	})
}
