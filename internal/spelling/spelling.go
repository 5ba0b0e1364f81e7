// Package spelling finds what somebody most probably meant, and says what things may be called.
//
//	spelling.Nearest("drain-timout", []string{"drain_timeout", "listen"})     // "drain_timeout"
package spelling

import (
	"regexp"
	"strings"
)

// nameForm is what a tenant, a class or a pool can be called: clients write it in headers, and it is in logs, metrics and configurations.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// NameForm says of what IsName is false, behind "want".
const NameForm = "1 to 64 letters, digits, dots, underscores and hyphens, beginning with a letter or digit"

// IsName says whether something can be called so.
func IsName(s string) bool { return nameForm.MatchString(s) }

// Nearest is the candidate that text most probably meant, or "" when none is near: two edits, or a third of a long word. Case, dashes
// and underscores do not count, so that drainTimeout and drain-timeout both find drain_timeout.
func Nearest(text string, candidates []string) string {
	best, bestDistance := "", 1<<30
	plain := simplify(text)
	for _, c := range candidates {
		limit := max(2, len(c)/3)
		if d := distance(plain, simplify(c)); d <= limit && d < bestDistance && d < len(plain) {
			best, bestDistance = c, d
		}
	}
	return best
}

func simplify(text string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(text))
}

// distance counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
func distance(a, b string) int {
	const longest = 64 // nobody misspells a key at this length, and the table is quadratic
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
