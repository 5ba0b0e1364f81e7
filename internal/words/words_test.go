package words

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestMain(m *testing.M) {
	Ready()
	os.Exit(m.Run())
}

// mixed makes text of few characters, one or two for everything that a pattern asks about.
func mixed(random *rand.Rand, n int) string {
	list := []string{"a", "B", "s", "l", "e", "r", "v", "t", "é", "É", "ſ", "ǅ", "ʰ", "ª", "日", "ゟ", "1", "½", "Ⅷ", " ", " ", "\n", "\r", "\t", "\u00a0", "!", "'", "'", "/", "€", "「", "~", "`", "0", "=", "\u0301", "\u200b", "\x00", "😀"}
	var b strings.Builder
	for range n {
		b.WriteString(list[random.IntN(len(list))])
	}
	return b.String()
}

// Go's regexp is another implementation of the same expressions; what it cannot say (look-ahead, possessive) is left to the reference.
func TestMatchersMatchWhatTheirExpressionSays(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	// Go has no look-ahead and no difference of classes; for the characters of mixed the differences are these.
	without := []string{`[\p{S}--~]`, `\p{Sc}\p{Sk}\p{So}+<=>|`, `((?=[\p{L}])([^a-z]))`, `[A-ZéÉſǅʰª日ゟ]`, `((?=[\p{L}])([^A-Z]))`, `[a-zéÉſǅʰª日ゟ]`}
	white := `[\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`
	for text, a := range alternatives {
		expression := strings.NewReplacer(without...).Replace(text)
		expression = strings.NewReplacer("[^\\s", "[^"+white[1:len(white)-1], `\s`, white, "?+", "?", "++", "+").Replace(expression)
		if text == `\s+(?!\S)` {
			continue
		}
		want, err := regexp.Compile("^(?:" + expression + ")")
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			s := mixed(random, 1+random.IntN(12))
			end := -1
			if at := want.FindStringIndex(s); at != nil {
				end = at[1]
			}
			if got := a.match(s, 0); got != end {
				t.Fatalf("%s on %q ends at %d, regexp says %d (seed %d)", text, s, got, end, seed)
			}
		}
	}
}

func TestSpaceBeforeAWordGoesWithTheWord(t *testing.T) {
	for in, want := range map[string]int{" a": -1, "  a": 1, "   a": 2, " ": 1, "  ": 2, " \u3000a": 1, "\u3000 a": 3, "a": -1} {
		if got := spaceBeforeSpace(in, 0); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

func pieces(p Pattern, s string) (all []string) {
	for i := 0; i < len(s); {
		end, gap := p.Next(s, i)
		piece := s[i:end]
		if gap {
			piece = "(" + piece + ")"
		}
		all = append(all, piece)
		i = end
	}
	return all
}

func TestPatternsCutAsTheirModelsDo(t *testing.T) {
	for _, c := range []struct{ regex, in, want string }{
		{GPT2, "Hello  world's 123\n\nx", "Hello| | world|'s| 123|\n|\n|x"},
		{`\p{N}{1,3}`, "ab12345c", "(ab)|123|45|(c)"},
		{`[一-龥぀-ゟ゠-ヿ]+`, "ab日本ァc", "(ab)|日本ァ|(c)"},
		{capitalised + shortened + "|" + upperCase + shortened + `|\s+`, "HTTPServer isn't FINE'S", "HTTPServer| isn't| FINE'S"},
		{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "It'S 1234 ok!!\n\n  end ", "It|'S| |123|4| ok|!!\n\n| | end| "},
	} {
		p, err := Parse(c.regex)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(pieces(p, c.in), "|"); got != c.want {
			t.Errorf("%s on %q: %q, want %q", c.regex, c.in, got, c.want)
		}
	}
}

func TestUnknownAlternativesAreNamed(t *testing.T) {
	for regex, name := range map[string]string{`\p{L}+|\p{Han}+`: `\p{Han}+`, "": "", `\s*[\r\n]+|\p{L}+`: `without \s+`, `[a|b]|\s+`: "[a|b]", `(a|b)|\s+`: "(a|b)", `\|`: `\|`, "(": "(", "[": "["} {
		if _, err := Parse(regex); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", regex, err)
		}
	}
}

// These counts are of the reference: of Unicode 16, but for the last, which is newer.
func TestClassesHaveTheSizesThatTheReferenceGave(t *testing.T) {
	want := []int{141028, 1911, 2501, 855, 8514, 25, 141271, 141640, 144667, 1924}
	got := make([]int, len(want))
	for r := range rune(utf8.MaxRune + 1) {
		for i := range want {
			if classOf(r)>>i&1 == 1 {
				got[i]++
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Go's own tables are another witness: letters that it has and we lack, or the other way round, are those of other Unicode versions only.
func TestClassesOfOldCodePointsAreThoseOfGo(t *testing.T) {
	for r := range rune(0x10000) {
		c := classOf(r)
		for bit, table := range map[uint16]*unicode.RangeTable{number: unicode.N, mark: unicode.M, punctuation: unicode.P, symbolic: unicode.S, letter: unicode.L, space: unicode.White_Space} {
			if c&bit != 0 && !unicode.Is(table, r) {
				t.Errorf("%U has bit %b, Go says no", r, bit)
			}
		}
	}
}

func TestNormalFormC(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "abc": "abc", "é": "é", "e\u0301": "é", "xe\u0301y": "xéy", "a\u0323\u0307": "ạ\u0307", "a\u0307\u0323": "ạ\u0307", "\u1100\u1161\u11a8": "각", "가\u11a8": "각", "\u1161\u11a8": "\u1161\u11a8",
		"\u212b": "Å", "\u0958": "\u0915\u093c", "\u03c5\u0308\u0301": "\u03b0", "\u0301": "\u0301", "e\u0334\u0301": "é\u0334", "\U000105d2\u0307": "\U000105d2\u0307",
		"e" + strings.Repeat("\u0301", 40): "é" + strings.Repeat("\u0301", 39), "日本\u3099": "日本\u3099", "か\u3099": "が", "\U0001d15e": "\U0001d157\U0001d165",
	} {
		if got := NFC(in); got != want {
			t.Errorf("%+q: %+q, want %+q", in, got, want)
		}
	}
}

func TestNormalFormStaysAndDoesNotDependOnWhatStandsBeside(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, seed))
	var odd []rune
	for r := range rune(0x20000) {
		if classOf(r)&unsettled != 0 || unicode16.decomposed[r] != nil {
			odd = append(odd, r)
		}
	}
	odd = append(odd, 'a', 'e', 0xac00, 0x1100, 0x1161, 0x11a8, 0x0915)
	for range 20000 {
		text := make([]rune, 1+random.IntN(8))
		for i := range text {
			text[i] = odd[random.IntN(len(odd))]
		}
		s := string(text)
		once := NFC(s)
		if twice := NFC(once); twice != once {
			t.Fatalf("%+q becomes %+q, and that %+q (seed %d)", s, once, twice, seed)
		}
		if apart := NFC(s + "|" + s); apart != once+"|"+once {
			t.Fatalf("%+q twice becomes %+q, once %+q (seed %d)", s, apart, once, seed)
		}
	}
}
