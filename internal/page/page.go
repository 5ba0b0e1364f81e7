// Package page is the page of the admin port: files that are in the binary and fetch nothing from elsewhere. What they show they ask of the
// same port, like any script would.
//
//	p, err := page.New()
//	for _, path := range p.Paths() {
//		mux.Handle("GET "+path, p) // "/{$}" is the page itself
//	}
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed files
var folder embed.FS

// policy lets the page load what is its own, and talk to its own port. It cannot be put into another page's frame, where clicks could be
// stolen.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one of the page's, ready to be sent.
type file struct {
	kind, tag string
	plain     []byte
	packed    func() []byte // worked out when it is asked for the first time: a router whose page nobody opens starts sooner without
}

// Page serves the files. Only New makes a usable one; any number of goroutines may use it.
type Page struct{ files map[string]file }

// New reads the files.
func New() (*Page, error) {
	p := &Page{files: map[string]file{}}
	err := fs.WalkDir(folder, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := folder.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		kind := mime.TypeByExtension(path.Ext(name))
		if kind == "" || strings.HasPrefix(kind, "text/plain") {
			kind = "text/plain; charset=utf-8"
		}
		at := "/" + strings.TrimPrefix(name, "files/")
		if at == "/index.html" {
			at = "/"
		}
		p.files[at] = file{kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: text, packed: sync.OnceValue(func() []byte { return pack(text) })}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the page of the admin port: %w", err)
	}
	return p, nil
}

// pack compresses a text. Neither that level nor a buffer can fail.
func pack(text []byte) []byte {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = z.Write(text)
	_ = z.Close()
	return packed.Bytes()
}

// Paths are those that the page serves, as patterns of http.ServeMux, in alphabetical order.
func (p *Page) Paths() (paths []string) {
	for at := range p.files {
		if at == "/" {
			at = "/{$}"
		}
		paths = append(paths, at)
	}
	slices.Sort(paths)
	return paths
}

// ServeHTTP answers with a file, packed for those that take it so. Browsers ask each time whether it has changed: after an upgrade nobody
// sees half of the old page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := p.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = f.packed()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

// takesGzip reads Accept-Encoding as far as browsers and curl write it.
func takesGzip(accept string) bool {
	for coding := range strings.SplitSeq(accept, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.TrimSpace(quality)
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}
