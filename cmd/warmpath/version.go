package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version, commit and date (RFC 3339, of the commit, so that a build can be repeated) are set by the linker, see Makefile. What it
// does not set is taken from what the Go toolchain noted in the binary.
var version, commit, date string

// build is what the binary was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // the working tree held more than the commit
	Date     string `json:"date"`     // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Modules  int    `json:"modules"`      // linked in beside our own and the standard library
	Hash     string `json:"modules_hash"` // SHA-256 of their "path version checksum" lines: equal hashes, equal dependencies
}

// buildOf reads what the linker and the toolchain noted; info may be nil.
func buildOf(info *debug.BuildInfo) build {
	b := build{Version: version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	hash := sha256.New()
	if info != nil {
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			fmt.Fprintf(hash, "%s %s %s\n", m.Path, m.Version, m.Sum)
			b.Modules++
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value[:min(len(s.Value), 12)])
			case "vcs.time":
				b.Date = cmp.Or(b.Date, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Hash = hex.EncodeToString(hash.Sum(nil))
	b.Version, b.Commit, b.Date = cmp.Or(b.Version, "dev"), cmp.Or(b.Commit, "unknown"), cmp.Or(b.Date, "unknown")
	return b
}

// thisBuild is the build that runs.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

// String is the build in one line, for --version.
func (b build) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", b.Version, b.Commit, b.Go, b.Platform)
}

func (b build) print(w io.Writer) error {
	tree := ""
	if b.Modified {
		tree = " with changes"
	}
	_, err := fmt.Fprintf(w, "warmpath %s\ncommit    %s%s\ndate      %s\ngo        %s\nplatform  %s\nmodules   %d, sha256:%s\n",
		b.Version, b.Commit, tree, b.Date, b.Go, b.Platform, b.Modules, b.Hash)
	return err
}

// versionCommand is `warmpath version`.
func versionCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Say what this binary was built from",
		Long: `version says what the binary was built from: version, commit and its date, Go, platform, and a hash of the modules
that are linked in, by which two builds can be compared. 'go version -m' lists the modules.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if !asJSON {
				return b.print(cmd.OutOrStdout())
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetIndent("", "  ")
			return out.Encode(b)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return command
}
