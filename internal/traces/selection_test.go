package traces

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"
)

func TestAHalfIsTheLowestBitOfAHash(t *testing.T) {
	for _, id := range []string{"", "0", "1", "2", "10", "trace_0002", "trace_0003"} {
		h := fnv.New64a()
		h.Write([]byte(id))
		want := []string{"even", "odd"}[h.Sum64()&1]
		if got := Half(id); got != want {
			t.Errorf("%q is in the %s half, want %s", id, got, want)
		}
	}
}

func TestSessionsAreSplitByTheirIdAndStayWhole(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, `{"id":"s%d","block_size":64,"requests":[{"t":0,"in":%d,"out":1},{"t":1,"in":%d,"out":1,"think_time":1}]}`+"\n", i, 100+i, 200+i)
	}
	name := write(t, "s", text.String())
	seen := 0
	for _, half := range []string{"even", "odd"} {
		x := open(t, name)
		x.Select(Selection{Half: half})
		got := all(t, x, 1)
		for i := range got {
			if want := Half(fmt.Sprintf("s%d", got[i].Line-1)); want != half || got[i].Follows != (i%2 == 1) {
				t.Errorf("session s%d is in the %s half, follows: %v", got[i].Line-1, half, got[i].Follows)
			}
		}
		seen += len(got)
	}
	if seen != 80 {
		t.Errorf("%d of 80 requests", seen)
	}
}

func TestHalvesMakeTheWholeAndMinutesAreJoined(t *testing.T) {
	var text strings.Builder
	for i := range 600 {
		fmt.Fprintf(&text, `{"timestamp":%d,"input_length":%d,"output_length":5,"hash_ids":[]}`+"\n", i*1000, i+1)
	}
	name := write(t, "m", text.String())
	seen := 0
	for _, half := range []string{"even", "odd"} {
		x := open(t, name)
		x.Select(Selection{Half: half})
		got := all(t, x, 1)
		for i, q := range got {
			minute := int64((q.Line - 1) / 60)
			if Half(fmt.Sprint(minute)) != half {
				t.Errorf("minute %d is in the %s half", minute, half)
			}
			if want := time.Duration(i) * time.Second; q.At != want {
				t.Fatalf("%s: request %d at %v, want %v", half, i, q.At, want)
			}
		}
		seen += len(got)
	}
	if seen != 600 {
		t.Errorf("%d of 600 requests", seen)
	}
	x := open(t, name)
	x.Select(Selection{First: 100, Length: 90 * time.Second})
	if n := len(all(t, x, 1)); n != 90 {
		t.Errorf("%d requests in 90 seconds", n)
	}
}
