// Drawings writes the drawings of docs/CONCEPTS.md, each in one file that browsers show light or dark as they are set. `make check` writes
// them again and compares.
//
//	go run ./scripts/drawings docs/img        # `make drawings`
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "drawings: name the folder: go run ./scripts/drawings docs/img")
		os.Exit(2)
	}
	for name, drawing := range map[string]string{"walk.svg": walk(), "choice.svg": choice()} {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(drawing), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "drawings:", err)
			os.Exit(1)
		}
	}
}
