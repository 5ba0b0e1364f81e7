package tokenizer

import (
	"errors"
	"strings"
	"testing"
)

func TestPartsThatDoNotFitAreAnError(t *testing.T) {
	for _, c := range []struct {
		v    Vocabulary
		name string
	}{
		{Vocabulary{Tokens: []string{"a"}, Split: []string{`\p{Han}+`}}, `\p{Han}`},
		{Vocabulary{Tokens: []string{"a", "a"}}, "ids 0 and 1"},
		{Vocabulary{Tokens: []string{"a"}, Merges: []string{"a b"}}, "not in the vocabulary"},
		{Vocabulary{Tokens: []string{"a"}, Merges: []string{"ab"}}, "two texts"},
		{Vocabulary{Tokens: []string{"a", "b"}, Scores: []float32{1}}, "1 scores for 2 tokens"},
		{Vocabulary{Tokens: []string{"a"}, Scores: []float32{1}}, "<0x00>"},
		{Vocabulary{Tokens: []string{strings.Repeat("x", addedBytesMax+1)}, Kinds: []Kind{Special}}, "513 bytes"},
	} {
		if _, err := Assemble(c.v); err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%.100v: %v, want an error with %q", c.v, err, c.name)
		}
	}
}

func TestTokensWhoseEndsAreAlikeAreRefusedUnlessTheyRepeatOneCharacter(t *testing.T) {
	f := func(refused bool, tokens ...string) {
		t.Helper()
		v := Vocabulary{Tokens: tokens, Kinds: make([]Kind, len(tokens))}
		for i := range v.Kinds {
			v.Kinds[i] = Added
		}
		if _, err := Assemble(v); errors.Is(err, ErrUnknown) != refused {
			t.Errorf("%q: %v", tokens, err)
		}
	}
	f(true, "<|ab", "ab|>")
	f(true, "\r\n", "\n\n")
	f(true, "  ", " x")
	f(false, "<|a|>", "<|a", "|>")
	f(false, "  ", "   ", "     ", "\n", "\n\n")
	f(false, "▁▁", "▁▁▁", "▁▁▁▁")
	f(false, "aba") // one and the same token over itself is found from the left by everyone
}

func TestRunsOfOneCharacterAreCutFromTheLeftTheLongestFirst(t *testing.T) {
	tk, err := Assemble(Vocabulary{Tokens: []string{"aa", "aaaa", "b"}, Kinds: []Kind{Added, Added, Normal}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range tk.Encode(nil, "aaaaaaab", Options{}) {
		text, _ := tk.Text(id)
		got = append(got, text)
	}
	if strings.Join(got, " ") != "aaaa aa b" { // the seventh a has no token
		t.Errorf("%q", got)
	}
}

func TestCharactersThatAreNewerThanUnicode15HaveNoClass(t *testing.T) {
	// The digit U+10D40 is of Unicode 16.0: what cuts numbers out leaves it where it is. The bytes of U+0664, an older one, stand apart.
	tokens := []string{"Ġ", "ð", "Ĳ", "µ", "Ģ", "Ġð", "Ù", "¤", "ĠÙ"}
	tk, err := Assemble(Vocabulary{Tokens: tokens, Merges: []string{"Ġ ð", "Ġ Ù"}, Split: []string{`\p{N}`}})
	if err != nil {
		t.Fatal(err)
	}
	for text, first := range map[string]string{" \U00010d40": " \xf0", " \u0664": " "} {
		ids := tk.Encode(nil, text, Options{})
		if got, _ := tk.Text(ids[0]); got != first {
			t.Errorf("%q begins with %q, want %q", text, got, first)
		}
	}
}
