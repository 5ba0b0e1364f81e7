package proxy

import (
	"fmt"
	"testing"
)

func TestTheMapOfResponsesIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	const most = 10_000
	o := newOwners(most)
	used := owner{"used", 1}
	o.put("resp_used", used)
	for i := range 10 * most {
		o.put(fmt.Sprint("resp_", i), owner{"w", uint64(i)})
		if n := len(o.young) + len(o.old); n > most {
			t.Fatalf("%d entries after %d responses, the bound is %d", n, i+1, most)
		}
		if got, ok := o.get("resp_used"); !ok || got != used {
			t.Fatalf("a response in use is forgotten after %d others", i+1)
		}
	}
	for i := 10*most - most/2; i < 10*most; i++ {
		if got, ok := o.get(fmt.Sprint("resp_", i)); !ok || got.incarnation != uint64(i) {
			t.Fatalf("response %d of %d is forgotten: %v", i, 10*most, got)
		}
	}
	if _, ok := o.get("resp_0"); ok {
		t.Error("the oldest is still known")
	}
}
