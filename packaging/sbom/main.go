// Command sbom writes the software bill of materials of a Go binary, in CycloneDX's JSON, from what the linker noted in it: what is
// listed is what is linked in, no more. It asks nobody.
//
//	go run ./packaging/sbom -binary dist/warmpath -version v1.2.3 -date 2026-01-02T15:04:05Z > warmpath.cdx.json
//
// The same binary gives the same bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"strings"
)

// bom is a CycloneDX document, as far as a Go binary fills it. Source: CycloneDX 1.6, JSON schema.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"` // RFC 3339
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hashed   `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hashed struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func main() {
	binary := flag.String("binary", "", "the Go binary to list")
	version := flag.String("version", "", "its version, where the linker noted none")
	date := flag.String("date", "", "when it was made, RFC 3339")
	flag.Parse()
	if *binary == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, *binary, *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, binary, version, date string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(list(info, hex.EncodeToString(sum[:]), version, date))
}

// list is the bill of one binary, whose bytes have the SHA-256 sum.
func list(info *debug.BuildInfo, sum, version, date string) bom {
	own := module(&debug.Module{Path: info.Main.Path, Version: cmp.Or(version, info.Main.Version)})
	own.Type, own.Name = "application", path.Base(info.Path)
	own.Hashes = []hashed{{"SHA-256", sum}}
	for _, s := range info.Settings {
		own.Properties = append(own.Properties, property{"go:build:" + s.Key, s.Value})
	}
	stdlib := module(&debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: []component{stdlib},
		// A version 8 UUID, made of the binary's own sum: the same binary, the same bill.
		Serial: fmt.Sprintf("urn:uuid:%s-%s-8%s-8%s-%s", sum[:8], sum[8:12], sum[13:16], sum[17:20], sum[20:32])}
	b.Metadata = metadata{Timestamp: date, Component: own}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, module(m))
	}
	all := dependency{Ref: own.Ref}
	for _, c := range b.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
		b.Dependencies = append(b.Dependencies, dependency{Ref: c.Ref})
	}
	b.Dependencies = append([]dependency{all}, b.Dependencies...)
	return b
}

// module is one Go module. Its sum is no hash of a file, so it stands among the properties: go.sum has the same.
func module(m *debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version)
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
