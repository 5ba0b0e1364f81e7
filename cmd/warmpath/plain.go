package main

import (
	"strconv"
	"strings"
)

// plain is a text that others wrote, such as a model's name, as it may be shown on a terminal: whatever would move the cursor, change colours or
// turn the direction of the text is written as Go writes it.
func plain(text string) string {
	return shown(text, func(r rune) bool { return strconv.IsPrint(r) })
}

// plainLines is plain of a text that may have several lines.
func plainLines(text string) string {
	return shown(text, func(r rune) bool { return r == '\n' || r == '\t' || strconv.IsPrint(r) })
}

func shown(text string, as func(rune) bool) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !as(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if as(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
