package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheMapOfResponsesIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	const most = 10_000
	o := NewOwners(most)
	used := Owner{"used", 1}
	o.Put("resp_used", used)
	for i := range 10 * most {
		o.Put(fmt.Sprint("resp_", i), Owner{"w", uint64(i)})
		if n := len(o.young) + len(o.old); n > most {
			t.Fatalf("%d entries after %d responses, the bound is %d", n, i+1, most)
		}
		if got, ok := o.Get("resp_used"); !ok || got != used {
			t.Fatalf("a response in use is forgotten after %d others", i+1)
		}
	}
	for i := 10*most - most/2; i < 10*most; i++ {
		if got, ok := o.Get(fmt.Sprint("resp_", i)); !ok || got.Incarnation != uint64(i) {
			t.Fatalf("response %d of %d is forgotten: %v", i, 10*most, got)
		}
	}
	if _, ok := o.Get("resp_0"); ok {
		t.Error("the oldest is still known")
	}
}

func TestOwnersAreBoundedAndARecentLookupKeepsOne(t *testing.T) {
	o := NewOwners(100)
	o.Put("kept", Owner{"w1", 1})
	for i := range 10_000 {
		o.Put("other"+strings.Repeat("x", i%50)+time.Duration(i).String(), Owner{"w2", 2})
		if _, ok := o.Get("kept"); !ok {
			t.Fatalf("forgotten after %d others though it was asked for all the time", i)
		}
		if n := len(o.young) + len(o.old); n > 100 {
			t.Fatalf("%d entries, the bound is 100", n)
		}
	}
	if w, ok := o.Get("kept"); !ok || w != (Owner{"w1", 1}) {
		t.Errorf("got %v %v", w, ok)
	}
	if _, ok := o.Get(""); ok {
		t.Error("an empty id has an owner")
	}
}
