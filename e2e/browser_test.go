//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browserWait is the longest time that the browser may take for one command.
const browserWait = 60 * time.Second

// browser is a headless Chromium, asked over a pipe by its DevTools protocol: messages in JSON, each ended by a zero byte.
type browser struct {
	t        *testing.T
	to       *os.File
	messages chan message // closed when the browser ends
	session  string       // of the page
	serial   int
	said     []string // by pages: errors, and what they wrote to the console
	loaded   bool     // the page that was last asked for
	home     string   // what a page may ask for, beside files
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params json.RawMessage `json:"params"`
	Error  *struct{ Message string }
}

// startBrowser starts Chromium; it ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	toBrowser, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "browser") // not t.TempDir: helpers of the browser may still write there for a moment when it has ended
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--headless", "--remote-debugging-pipe", "--user-data-dir=" + folder, "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--hide-scrollbars", "about:blank"}
	if os.Geteuid() == 0 {
		flags = append(flags, "--no-sandbox") // it refuses to run as root in its own
	}
	cmd := exec.Command("chromium", flags...)
	cmd.Env = append(os.Environ(), "HOME="+folder)
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // its descriptors 3 and 4
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (scripts/browser-install.sh installs it)", err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, to: to, messages: make(chan message, 1024)}
	go b.read(from)
	t.Cleanup(func() {
		b.serial++
		fmt.Fprintf(to, `{"id":%d,"method":"Browser.close"}`+"\x00", b.serial)
		to.Close()
		killer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		for range b.messages {
		}
		if t.Failed() {
			t.Logf("chromium printed:\n%.2000s", stderr.String())
		}
		os.RemoveAll(folder)
	})
	var target struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, part := range []string{"Page", "Runtime", "Log", "Network"} {
		b.ask(part+".enable", nil, nil)
	}
	return b
}

func (b *browser) read(from *os.File) {
	defer close(b.messages)
	defer from.Close()
	for in := bufio.NewReader(from); ; {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			b.messages <- m
		}
	}
}

// ask sends a command and reads its result.
func (b *browser) ask(method string, params map[string]any, into any) {
	b.t.Helper()
	b.serial++
	command := map[string]any{"id": b.serial, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatalf("chromium has ended: %v", err)
	}
	b.until(method, func(m message) bool {
		if m.ID != b.serial {
			return false
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, m.Result)
			}
		}
		return true
	})
}

// until takes in messages until one is what is waited for.
func (b *browser) until(what string, done func(message) bool) {
	b.t.Helper()
	late := time.NewTimer(browserWait)
	defer late.Stop()
	for {
		select {
		case m, ok := <-b.messages:
			if !ok {
				b.t.Fatalf("chromium has ended before %s", what)
			}
			b.note(m)
			if done(m) {
				return
			}
		case <-late.C:
			b.t.Fatalf("chromium has not done %s within %v", what, browserWait)
		}
	}
}

// note keeps what a page said: its console, exceptions, the browser's own complaints, and all that it asked the network for.
func (b *browser) note(m message) {
	switch m.Method {
	case "Page.loadEventFired":
		b.loaded = true
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		b.said = append(b.said, fmt.Sprintf("%s %s", m.Method, m.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &p) == nil && !strings.HasPrefix(p.Request.URL, "file://") && (b.home == "" || !strings.HasPrefix(p.Request.URL, b.home)) {
			b.said = append(b.said, "asked for "+p.Request.URL)
		}
	}
}

// window makes the window so wide, and the system light or dark.
func (b *browser) window(width int, scheme string) {
	b.t.Helper()
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// show opens a file in a window so wide, light or dark, and returns what the page said.
func (b *browser) show(file string, width int, scheme string) []string {
	b.t.Helper()
	whole, err := filepath.Abs(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.window(width, scheme)
	b.visit("file://" + whole)
	return b.said
}

// visit opens an address and forgets what was said before.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.said, b.loaded = nil, false
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
	if !b.loaded {
		b.until("loading "+url, func(message) bool { return b.loaded })
	}
}

// evaluate runs an expression in the page.
func (b *browser) evaluate(expression string, into any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.ask("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("the page threw %s", r.ExceptionDetails)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(r.Result.Value, into); err != nil {
		b.t.Fatalf("%v in %s", err, r.Result.Value)
	}
}

// screenshot writes the whole page as a picture.
func (b *browser) screenshot(file string) {
	b.t.Helper()
	b.shot(file, true)
}

func (b *browser) shot(file string, whole bool) {
	b.t.Helper()
	var shot struct{ Data string }
	b.ask("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
