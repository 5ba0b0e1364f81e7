package heavy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHeavyIsWhatIsOutOfProportionInItsPool(t *testing.T) {
	rule, chat, long := DefaultRule(), &Spread{}, &Spread{}
	if rule.Heavy(100, chat) {
		t.Error("something is heavy where nothing is known")
	}
	r := rand.New(rand.NewPCG(3, 3))
	for range 5000 {
		chat.Add(0.1 * (0.5 + r.Float64()))
		long.Add(8 * (0.5 + r.Float64()))
	}
	for _, x := range []struct {
		seconds    float64
		chat, long bool
	}{{0.1, false, false}, {0.6, false, false}, {1, true, false}, {8, true, false}, {90, true, true}} {
		if rule.Heavy(x.seconds, chat) != x.chat || rule.Heavy(x.seconds, long) != x.long {
			t.Errorf("%v s: %v among chats, %v among long jobs", x.seconds, rule.Heavy(x.seconds, chat), rule.Heavy(x.seconds, long))
		}
	}
	for range 3000 { // the pool's use changes
		chat.Add(5)
	}
	if rule.Heavy(8, chat) {
		t.Error("what is usual now is still heavy")
	}
	if fixed := (Rule{Seconds: 2}); !fixed.Heavy(2, &Spread{}) || fixed.Heavy(1.9, &Spread{}) {
		t.Error("a fixed rule does not hold")
	}
}

func TestQuantilesOfASpreadAreWithinATenth(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	s, values := &Spread{}, []float64{}
	for i := range 200_000 {
		v := 0.05 * r.ExpFloat64()
		if s.Add(v); i >= 199_000 {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	for _, p := range []float64{0.25, 0.5, 0.9} {
		got, known := s.Quantile(p)
		if want := values[int(p*1000)]; !known || got < want*0.8 || got > want*1.25 {
			t.Errorf("quantile %v is %.4f, want %.4f", p, got, want)
		}
	}
}
