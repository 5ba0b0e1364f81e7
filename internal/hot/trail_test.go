package hot

import (
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

// tokensOf are the keys of so many blocks that are shared, then so many of one's own.
func tokensOf(size, shared, n, own, more int) TokenKeys {
	return TokenKeys{BlockTokens: size, Keys: chainOf(10_000*size+shared, n, 10_000*size+own, more).Keys}
}

// askTokens notes a request whose first 30 blocks of text, of some 120 tokens, are shared, and whose tokens are known.
func askTokens(h *Table, own int, all ...TokenKeys) {
	c := chainOf(1, 30, own, 10)
	h.Note(&Request{At: second, Model: "m", Chain: c, PromptTokens: 160, TextBytes: 640, Known: 30, Tokens: all})
}

func TestWhereAPrefixEndsAmongTheTokensIsWhatItsRequestsHaveInCommon(t *testing.T) {
	for name, c := range map[string]struct {
		blocks []int // of 4 tokens that each request shares with the first; the prefix is estimated to have 30
		want   int
	}{
		"as estimated":                      {[]int{30, 30, 30}, 30},
		"shorter":                           {[]int{26, 26, 26}, 26},
		"longer":                            {[]int{34, 34, 34}, 34},
		"one parts early":                   {[]int{30, 22, 30}, 22},
		"nobody has parted within reach":    {[]int{50, 50}, 30},
		"one is made in another way wholly": {[]int{30, 0, 30}, 30},
	} {
		h := New(Options{})
		for i, shared := range c.blocks {
			own := i + 1
			if shared == 0 { // of which nothing is the others'
				askTokens(h, own, tokensOf(4, 77, 40, own, 0))
				continue
			}
			askTokens(h, own, tokensOf(4, 1, shared, own, 50-shared))
		}
		leads := h.Top(second, 1, ByRequests)[0].Leads
		key := tokensOf(4, 1, c.want, 0, 0).Keys[c.want-1]
		if len(leads) != 1 || leads[0] != (Lead{BlockTokens: 4, Blocks: c.want, Key: key}) {
			t.Errorf("%s: %+v, want %d blocks", name, leads, c.want)
		}
	}
}

func TestALongPrefixIsKnownToA32ndOfItAndInFewSizesOfBlocks(t *testing.T) {
	h := New(Options{})
	for i := range 3 {
		c := chainOf(1, 3000, i, 10)
		h.Note(&Request{At: second, Model: "m", Chain: c, PromptTokens: 12_040, TextBytes: 16 * 3010, Known: 3000,
			Tokens: []TokenKeys{tokensOf(4, 1, 2950, i, 60), tokensOf(8, 1, 1500, i, 60), tokensOf(16, 1, 700, i, 60)}})
	}
	p := h.Top(second, 1, ByRequests)[0]
	if len(p.Leads) != trailsMax {
		t.Fatalf("%+v", p.Leads)
	}
	for i, want := range []int{2950, 1500} {
		if l := p.Leads[i]; l.Blocks > want || l.Blocks < want-3000/trailSteps-1 || l.Key != tokensOf(l.BlockTokens, 1, want, 0, 0).Keys[l.Blocks-1] {
			t.Errorf("%+v, want nearly %d blocks", l, want)
		}
	}
	for i := range h.all {
		for _, trail := range h.all[i].trails {
			if len(trail.keys) > 2*trailSteps {
				t.Errorf("%d keys are kept", len(trail.keys))
			}
		}
	}
}

func TestWithoutTokensNothingIsSaidOfThem(t *testing.T) {
	h := New(Options{})
	for i := range 3 {
		askTokens(h, i)
	}
	if p := h.Top(second, 1, ByRequests)[0]; p.Requests != 3 || p.Leads != nil {
		t.Errorf("%+v", p)
	}
	for i := range 3 {
		askTokens(h, 3+i, TokenKeys{BlockTokens: 16}, TokenKeys{Keys: []prefix.Key{1}})
	}
	if p := h.Top(second, 1, ByRequests)[0]; p.Leads != nil {
		t.Errorf("%+v", p)
	}
}
