package cost

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

func TestAnAnswersLengthComesFromTheTenantThenTheModelThenAll(t *testing.T) {
	o := NewOutputs(0)
	if got := o.Expect("m", "t", 0); got != outputStartTokens {
		t.Errorf("nothing seen: %v", got)
	}
	for range 200 {
		o.Learn("m", "short", 20)
		o.Learn("m", "long", 2000)
	}
	f := func(model, tenant string, maxTokens int, low, high float64) {
		t.Helper()
		if got := o.Expect(model, tenant, maxTokens); got < low || got > high {
			t.Errorf("%s of %s: %v, want %v to %v", model, tenant, got, low, high)
		}
	}
	f("m", "short", 0, 20, 40)
	f("m", "long", 0, 1500, 2000)
	f("m", "new", 0, 800, 1100)
	f("other", "new", 0, 800, 1100)
	f("m", "long", 16, 16, 16)
	f("m", "short", 1000, 20, 40)
}

func TestOneOddAnswerMovesAnEstimateLittle(t *testing.T) {
	o := NewOutputs(0)
	for range 100 {
		o.Learn("m", "a", 100)
	}
	o.Learn("m", "b", 32_000)
	if got := o.Expect("m", "b", 0); got > 1000 {
		t.Errorf("one answer of 32,000 among 100: %v expected", got)
	}
}

func TestTheTenantsToldApartAreBounded(t *testing.T) {
	o := NewOutputs(8)
	for i := range 1000 {
		o.Learn("m", fmt.Sprint("tenant", i), 10)
		o.Learn("m", "steady", 500)
	}
	if o.Len() > 8 {
		t.Errorf("%d entries held", o.Len())
	}
	if got := o.Expect("m", "steady", 0); got < 400 {
		t.Errorf("the steady tenant was forgotten: %v", got)
	}
}

func TestWhatIsNoLengthIsIgnored(t *testing.T) {
	o := NewOutputs(0)
	o.Learn("m", "a", 0)
	o.Learn("m", "a", -5)
	if got := o.Expect("m", "a", 0); got != outputStartTokens || o.Len() != 0 {
		t.Errorf("%v expected, %d entries", got, o.Len())
	}
}

func TestTheBytesOfATokenAreLearnedPerModel(t *testing.T) {
	r := NewRatio()
	f := func(model string, bytes, want int) {
		t.Helper()
		if got := r.Tokens(model, bytes); math.Abs(float64(got-want)) > 0.02*float64(want) {
			t.Errorf("%s: %d bytes are %d tokens, want %d", model, bytes, got, want)
		}
	}
	f("m", 4000, 1000)
	for range 50 {
		r.Learn("dense", 6000, 1000)
		r.Learn("thin", 2000, 1000)
	}
	f("dense", 6000, 1000)
	f("thin", 2000, 1000)
	f("unknown", 4000, 1000)
	if got := r.Bytes("dense", 1000); got < 5900 || got > 6100 {
		t.Errorf("1,000 tokens are %d bytes", got)
	}
	if r.Tokens("m", 0) != 0 || r.Tokens("m", 1) != 1 || r.Bytes("m", -1) != 0 {
		t.Error("the ends of the range are wrong")
	}
}

func TestAPictureIsNoText(t *testing.T) {
	r := NewRatio()
	for range 100 {
		r.Learn("m", 40, 1000)
		r.Learn("m", 1_000_000, 10)
		r.Learn("m", -1, 10)
		r.Learn("m", 10, 0)
	}
	if got := r.Tokens("m", 4000); got != 1000 {
		t.Errorf("4,000 bytes are %d tokens", got)
	}
}

func TestAChangeOfTrafficMovesTheRatio(t *testing.T) {
	r := NewRatio()
	for range 1000 {
		r.Learn("m", 40_000, 10_000)
	}
	for range 300 {
		r.Learn("m", 20_000, 10_000)
	}
	if got := r.Tokens("m", 20_000); got < 9000 {
		t.Errorf("20,000 bytes are still %d tokens", got)
	}
}

func TestTheModelsOfARatioAreBounded(t *testing.T) {
	r := NewRatio()
	for i := range 3 * ratioModelsMax {
		r.Learn(fmt.Sprint(i), 5000, 1000)
	}
	if len(r.models) > ratioModelsMax {
		t.Errorf("%d models held", len(r.models))
	}
	if got := r.Tokens("never seen", 5000); got > 1050 {
		t.Errorf("a model past the bound does not use what all have shown: %d tokens", got)
	}
}

func TestWhatIsKeptOfATenantIsItsNameAlone(t *testing.T) {
	o := NewOutputs(0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 500 {
		head := fmt.Sprintf("%d%s", i, strings.Repeat("h", 64<<10))
		o.Learn("m", head[:10], 100)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 8<<20 || o.Len() != 501 {
		t.Errorf("%d bytes are held for %d entries", grew, o.Len())
	}
	runtime.KeepAlive(o)
}
