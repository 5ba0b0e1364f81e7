//go:build e2e && screenshots

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	wait := s.conversations(ctx, 40)
	defer func() { stop(); wait() }()
	b := startBrowser(t)
	eventually(t, "the page has something to show for it", 3*time.Minute, func() bool { return s.metric("warmpath_requests_total") > 1200 })
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

// conversations are what the pictures are of: three applications with system prompts of their own, conversations that grow turn by turn and quote
// what was answered, and people who read before they go on.
func (s *simulated) conversations(ctx context.Context, people int) (wait func()) {
	var all sync.WaitGroup
	for person := range people {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(person), 11))
			for talk := 0; ctx.Err() == nil; talk++ {
				app := []string{"support", "legal", "code"}[(person+talk)%3]
				s.converse(ctx, random, app, fmt.Sprintf("%s-%d-%d", app, person, talk))
			}
		})
	}
	return all.Wait
}

// converse is one conversation of up to eight turns.
func (s *simulated) converse(ctx context.Context, random *rand.Rand, app, session string) {
	talk := []map[string]string{{"role": "system", "content": strings.Repeat("You work for the "+app+" department and keep to its rules. ", 250)}}
	for range 2 + random.IntN(7) {
		talk = append(talk, map[string]string{"role": "user", "content": fmt.Sprintf("question %d of %s: %s", random.Uint32(), session, strings.Repeat("word ", 50+random.IntN(400)))})
		_, stream, err := s.ask(ctx, map[string]any{"model": simModel, "messages": talk, "stream": true, "max_tokens": 40 + random.IntN(160)}, "X-Session-Id", session, "X-Tenant-Id", app)
		if err != nil {
			return
		}
		talk = append(talk, map[string]string{"role": "assistant", "content": spoken(stream)})
		select {
		case <-time.After(time.Duration(random.IntN(1500)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// spoken is the text of a stream.
func spoken(stream string) (text string) {
	for line := range strings.SplitSeq(stream, "\n") {
		var event struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &event) == nil && len(event.Choices) > 0 {
			text += event.Choices[0].Delta.Content
		}
	}
	return text
}
