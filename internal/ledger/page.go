package ledger

//go:generate go test -count=1 -run ^TestThePageOfBoundsIsTheBook$ . -args -update

import (
	"fmt"
	"strings"
)

// Table is Book as a table of Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| bound | what is counted | default | setting | what happens there |\n|---|---|---|---|---|\n")
	for _, e := range Book {
		name := "`" + e.Name + "`"
		if e.Each {
			name += " (each)"
		}
		setting := "none"
		if e.Setting != "" {
			setting = "`" + strings.ReplaceAll(e.Setting, ", ", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, e.What, e.Default, setting, e.Then)
	}
	return b.String()
}
