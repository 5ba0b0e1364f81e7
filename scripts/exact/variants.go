package main

import "slices"

// variant is a tokenizer that none of the families is, made of one of them.
type variant struct {
	name, base string
	change     func(t tree)
}

func split(regex string) tree {
	return tree{"type": "Split", "pattern": tree{"Regex": regex}, "behavior": "Isolated", "invert": false}
}

func byteLevel(prefixSpace, regex bool) tree {
	return tree{"type": "ByteLevel", "add_prefix_space": prefixSpace, "trim_offsets": true, "use_regex": regex}
}

func sequence(parts ...any) tree { return tree{"type": "Sequence", "pretokenizers": parts} }

func preTokenizer(p tree) func(tree) { return func(t tree) { t["pre_tokenizer"] = p } }

func pattern(regex string) func(tree) {
	return preTokenizer(sequence(split(regex), byteLevel(false, false)))
}

func metaspace(scheme string, cut bool) func(tree) {
	return func(t tree) {
		t["normalizer"] = nil
		t["pre_tokenizer"] = tree{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
	}
}

func addedToken(text string, flags ...string) tree {
	a := tree{"content": text}
	for _, f := range []string{"single_word", "lstrip", "rstrip", "normalized", "special"} {
		a[f] = slices.Contains(flags, f)
	}
	return a
}

// manyKinds are added tokens of every kind, some within others.
func manyKinds(t tree) {
	number(t, []any{addedToken("<s>", "special"), addedToken("</s>", "special"), addedToken("<|end|>", "special", "rstrip"), addedToken("<|user|>", "rstrip"), addedToken("<mask>", "lstrip", "special"),
		addedToken("foo", "single_word"), addedToken("bar", "single_word", "normalized"), addedToken("é", "normalized"), addedToken("<both>", "lstrip", "rstrip", "normalized"), addedToken("\n\n"),
		addedToken("<|end|>!", "special"), addedToken("end"), addedToken("e\u0301x", "normalized"), addedToken("a b", "normalized"), addedToken("Hello", "normalized", "lstrip")})
}

// wrapped has a beginning and an end put around every text, behind another processor.
func wrapped(t tree) {
	var ids []any
	for _, a := range t["added_tokens"].([]any)[:2] {
		ids = append(ids, a.(tree)["id"])
	}
	special := func(name string) tree { return tree{"SpecialToken": tree{"id": name, "type_id": 0}} }
	t["post_processor"] = tree{"type": "Sequence", "processors": []any{byteLevel(true, true), tree{"type": "TemplateProcessing",
		"single": []any{special("B"), tree{"Sequence": tree{"id": "A", "type_id": 0}}, special("E")}, "pair": []any{tree{"Sequence": tree{"id": "A", "type_id": 0}}, tree{"Sequence": tree{"id": "B", "type_id": 1}}},
		"special_tokens": tree{"B": tree{"id": "B", "ids": []any{ids[0]}, "tokens": []any{"B"}}, "E": tree{"id": "E", "ids": ids, "tokens": []any{"E", "F"}}}}}}
}

// unknowns leaves some characters without a token.
func unknowns(token any, fuse bool) func(tree) {
	return func(t tree) {
		model := t["model"].(tree)
		model["byte_fallback"], model["unk_token"], model["fuse_unk"] = false, token, fuse
		if _, chars := model["vocab"].(tree)["<0x00>"]; chars {
			return
		}
		vocab, merges := model["vocab"].(tree), []any{}
		gone := []string{"e", "Ġ", "Ã", "1"}
		for _, m := range model["merges"].([]any) {
			if left, right := mergeTexts(m); left != "e" && right != "e" && left != "Ġ" && right != "Ġ" {
				merges = append(merges, m)
			}
		}
		model["merges"] = merges
		for id := range 4 {
			vocab[[]string{"<unk0>", "<unk>", "<unk2>", "<unk3>"}[id]] = vocab[gone[id]]
			delete(vocab, gone[id])
		}
		number(t, t["added_tokens"].([]any))
	}
}

// someBytes leaves some of the tokens out that characters fall back to.
func someBytes(fuse bool) func(tree) {
	return func(t tree) {
		t["model"].(tree)["fuse_unk"] = fuse
		vocab := t["model"].(tree)["vocab"].(tree)
		for i, b := range []string{"<0x0A>", "<0x97>", "<0x9F>", "<0xCC>"} {
			vocab[[]string{"zq0", "zq1", "zq2", "zq3"}[i]] = vocab[b]
			delete(vocab, b)
		}
	}
}

func all(changes ...func(tree)) func(tree) {
	return func(t tree) {
		for _, c := range changes {
			c(t)
		}
	}
}

const (
	tail       = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekken     = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + tail
	qwen35     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + tail
	cl100k     = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	gptLetters = `\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+`
)

var variants = []variant{
	{"gpt2", "llama3", preTokenizer(byteLevel(false, true))},
	{"gpt2-prefix-space", "llama3", preTokenizer(byteLevel(true, true))},
	{"byte-level-whole", "qwen3", preTokenizer(byteLevel(false, false))},
	{"smollm2", "qwen3", all(preTokenizer(sequence(tree{"type": "Digits", "individual_digits": true}, byteLevel(false, true))), func(t tree) { t["normalizer"] = nil })},
	{"digits-together", "llama3", preTokenizer(sequence(tree{"type": "Digits", "individual_digits": false}, byteLevel(false, true)))},
	{"tekken", "gptoss", pattern(tekken)},
	{"qwen35", "qwen3", pattern(qwen35)},
	{"cl100k", "llama3", pattern(cl100k)},
	{"removed-inverted", "llama3", preTokenizer(sequence(tree{"type": "Split", "pattern": tree{"Regex": gptLetters}, "behavior": "Removed", "invert": true}, byteLevel(false, false)))},
	{"added-kinds", "llama3", all(manyKinds, wrapped)},
	{"added-kinds-nfc", "qwen3", all(manyKinds, wrapped)},
	{"added-kinds-chars", "llama2", manyKinds},
	{"bytes-vanish", "llama3", unknowns(nil, false)},
	{"bytes-unknown", "llama3", unknowns("<unk>", false)},
	{"bytes-unknown-fused", "llama3", unknowns("<unk>", true)},
	{"chars-vanish", "llama2", unknowns(nil, false)},
	{"chars-unknown", "llama2", unknowns("<unk>", false)},
	{"chars-unknown-fused", "llama2", unknowns("<unk>", true)},
	{"bytes-in-part", "llama2", someBytes(true)},
	{"bytes-in-part-apart", "llama2", someBytes(false)},
	{"metaspace-first", "llama2", metaspace("first", false)},
	{"metaspace-always", "llama2", metaspace("always", false)},
	{"metaspace-never-cut", "llama2", metaspace("never", true)},
	{"metaspace-first-cut", "llama2", all(metaspace("first", true), manyKinds)},
	{"metaspace-old", "gemma3", func(t tree) {
		t["normalizer"] = nil
		t["pre_tokenizer"] = tree{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true, "str_rep": "▁"}
	}},
}
