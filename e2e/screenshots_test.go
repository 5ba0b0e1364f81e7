//go:build e2e && screenshots

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pictures is where those of the documents are.
const pictures = "../docs/img"

// The pictures of the README and the documents are of the real page, before simulated engines under load.
func TestThePicturesOfTheDocumentsAreTaken(t *testing.T) {
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startSimulated(t, 4)
	ctx, stop := context.WithCancel(t.Context())
	wait := s.crowd(ctx, 12)
	defer func() { stop(); wait() }()
	b := startBrowser(t)
	eventually(t, "the page has something to show for it", 3*time.Minute, func() bool { return s.metric("warmpath_requests_total") > 2500 })
	for _, p := range []struct{ part, scheme, then string }{
		{"fleet", "light", ""}, {"fleet", "dark", ""}, {"now", "light", ""}, {"saved", "light", ""},
		{"why", "light", `[...document.querySelectorAll("#part-why tbody:last-of-type tr")].find((r) => r.textContent.includes("declined") || r.textContent.includes("hit")).querySelector("button").click()`},
		{"prefixes", "light", ""},
	} {
		b.window(1280, p.scheme)
		w := s.open(t, b, p.part)
		w.becomes(p.part+" is drawn", 15*time.Second, drawn[p.part])
		if p.then != "" {
			w.evaluate(p.then, nil)
			w.becomes("it opens", 5*time.Second, `document.querySelectorAll("dialog .stack").length >= 3`)
		}
		w.evaluate(`new Promise((done) => setTimeout(() => done(1), 1500))`, nil) // a second snapshot, so that bars have moved to where they belong
		w.shot(filepath.Join(pictures, fmt.Sprintf("page-%s-%s.png", p.part, p.scheme)), false)
	}
}
