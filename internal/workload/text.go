package workload

import (
	"math/rand/v2"
	"strings"
	"unicode"
)

const (
	bytesPerToken   = 4
	vocabularyWords = 3000
	sentencesMax    = 6 // in a paragraph
)

// vocabulary makes up words that can be spoken, two to four syllables each, no two alike.
func vocabulary(r *rand.Rand) []string {
	onsets := strings.Fields("b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t th tr v w")
	vowels := strings.Fields("a e i o u ai ea ou")
	codas := []string{"", "", "", "n", "r", "s", "l", "nd", "st", "m"}
	words := make([]string, 0, vocabularyWords)
	seen := make(map[string]bool, vocabularyWords)
	for len(words) < vocabularyWords {
		var w strings.Builder
		for range 1 + r.IntN(3) {
			w.WriteString(onsets[r.IntN(len(onsets))])
			w.WriteString(vowels[r.IntN(len(vowels))])
		}
		w.WriteString(codas[r.IntN(len(codas))])
		if word := w.String(); !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words
}

// text writes paragraphs of sentences, about that many tokens long. Few words are frequent and most are rare.
func text(r *rand.Rand, words []string, tokens int) string {
	var b strings.Builder
	size := tokens * bytesPerToken
	b.Grow(size + 64)
	for sentence := 0; b.Len() < size; sentence++ {
		for i := range 5 + r.IntN(12) {
			u := r.Float64()
			word := words[int(u*u*u*float64(len(words)))]
			if i == 0 {
				word = string(unicode.ToUpper(rune(word[0]))) + word[1:]
			} else {
				b.WriteByte(' ')
			}
			b.WriteString(word)
		}
		b.WriteByte('.')
		if sentence%sentencesMax == sentencesMax-1 {
			b.WriteString("\n\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String()[:size])
}
