package prompt

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
)

func TestLOR02AnAdapterThatIsLoadedAnewSharesNothingWithTheOldOne(t *testing.T) {
	k := New(prefix.NewSeed([]byte("test")), DefaultOptions())
	of := func(model string) prefix.Chain {
		body := []byte(`{"model":"` + model + `","messages":[{"role":"user","content":"` + story + `"}]}`)
		var r llmapi.Request
		if err := r.Scan(llmapi.Chat, body); err != nil {
			t.Fatal(err)
		}
		return k.Chain(&r, body, prefix.Chain{})
	}
	x, y := of("x"), of("y")
	for life := range 3 {
		k.Renew("x")
		next := of("x")
		if n := shared(x, next); n != 0 {
			t.Errorf("life %d shares %d blocks with the one before", life+1, n)
		}
		if x = next; shared(y, of("y")) != len(y.Keys) {
			t.Error("another model's blocks are not what they were")
		}
	}
	for i := range 2 * livesMax {
		k.Renew(fmt.Sprint("invented ", i))
	}
	if n := len(k.lives.Load().byName); n > livesMax {
		t.Errorf("the lives of %d names are counted, the bound is %d", n, livesMax)
	}
	if n := shared(x, of("x")); n != 0 {
		t.Errorf("where lives are not counted any more, %d blocks are shared with an earlier one", n)
	}
}
