package strict

import (
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	File    string // "" when the value came from a flag
	Line    int    // 0 when the value came from a flag
	Key     string // path of the key, such as timeouts.idle_gap or workers[2].url; "" for the file as a whole
	Message string // names the value, the limit and what to write instead
}

func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line))
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Error is everything wrong with a configuration, in the order of the file: one run shows all there is to mend.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// AsError is nil when nothing is wrong.
func AsError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return &Error{Problems: problems}
}
