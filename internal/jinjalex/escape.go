package jinjalex

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Space is what Python's str.strip and \s take for white space.
func Space(r rune) bool {
	return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r)
}

var simpleEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\\': "\\", '\'': "'", '"': "\"", '\n': ""}

// unescape reads a string literal's escapes as Python's codec unicode-escape does; an unknown one stands for itself.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if simple, ok := simpleEscapes[s[i]]; ok {
			b.WriteString(simple)
			continue
		}
		width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if s[i] == 'N' || s[i] >= '0' && s[i] <= '7' {
			return "", fmt.Errorf(`the escape \%c is not known here`, s[i])
		}
		if width == 0 {
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		if i+width >= len(s) {
			return "", fmt.Errorf(`the escape \%c is cut short`, s[i])
		}
		code, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
		if err != nil || code > unicode.MaxRune || code >= 0xd800 && code < 0xe000 {
			return "", fmt.Errorf(`the escape \%s is not a character`, s[i:i+1+width])
		}
		b.WriteRune(rune(code))
		i += width
	}
	return b.String(), nil
}
