package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/sched"
)

// imageChat is a chat body of exactly size bytes, most of them an inline image.
func imageChat(size int) string {
	const head, tail = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`, `"}}]}]}`
	return head + strings.Repeat("iVBORw0K", size/8+1)[:size-len(head)-len(tail)] + tail
}

// countsBytes answers with the number of bytes that came.
func countsBytes(c *call) { c.json(http.StatusOK, strconv.Itoa(len(c.body))) }

func TestBOD_01_BodiesBelowTheLimitPassExactlyAndThoseBeyondAreAnswered(t *testing.T) {
	w := newWorker(t, countsBytes)
	rt := start(t, nil, w)
	for _, size := range []int{900 << 10, 1100 << 10, 2500 << 10, 9 << 20, 12 << 20} {
		body := imageChat(size)
		r := rt.post("/v1/chat/completions", body)
		calls := w.calls()
		if r.status != http.StatusOK || string(calls[len(calls)-1].body) != body {
			t.Errorf("%d bytes: %d %.80s, the worker got %d bytes", size, r.status, r.body, len(calls[len(calls)-1].body))
		}
	}
}

func TestBOD_01_TooLargeIsAnAnswerThatEveryClientCanRead(t *testing.T) {
	const limit = 1 << 20
	w := newWorker(t, countsBytes)
	rt := start(t, func(c *config.Config) { c.BodyBytesMax = limit }, w)
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/audio/transcriptions"} {
		for _, size := range []int{limit + 1, 24 << 20} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprint(path, " ", size, " chunked ", chunked), func(t *testing.T) {
					head, answer := sendAllThenRead(t, rt, path, imageChat(size), chunked)
					if !strings.HasPrefix(head, "HTTP/1.1 413 ") || !strings.Contains(answer, "1048576") || !strings.Contains(answer, "body_bytes_max") {
						t.Errorf("got %q %q", head, answer)
					}
					if anthropic := strings.Contains(answer, `"type":"error"`); anthropic != strings.HasSuffix(path, "messages") {
						t.Errorf("not in the client's dialect: %s", answer)
					}
				})
			}
		}
	}
	if w.count() != 0 {
		t.Errorf("the worker got %d of them", w.count())
	}
	if r := rt.post("/v1/chat/completions", imageChat(limit)); r.status != http.StatusOK || r.body != strconv.Itoa(limit) {
		t.Errorf("at the limit: %d %s", r.status, r.body)
	}
}

// dial is a connection to the data port, for what no HTTP client would send.
func dial(t *testing.T, rt *testRouter) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(rt.DataURL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// sendAllThenRead is the client that suffers most: it writes its whole request before it reads a byte.
func sendAllThenRead(t *testing.T, rt *testRouter, path, body string, chunked bool) (head, answer string) {
	t.Helper()
	conn := dial(t, rt)
	framing, text := fmt.Sprintf("Content-Length: %d", len(body)), body
	if chunked {
		framing, text = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n", path, framing)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Errorf("the router stopped taking the body: %v", err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("the answer is cut: %v after %q", err, all)
	}
	head, answer, _ = strings.Cut(string(all), "\r\n\r\n")
	return head, answer
}

// form is a multipart body with a file before, between or after its fields.
func form(t *testing.T, boundary string, file []byte, fields ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("file", "Straße – 会議.wav")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(file)
	for i := 0; i+1 < len(fields); i += 2 {
		w.WriteField(fields[i], fields[i+1])
	}
	w.Close()
	return b.Bytes()
}

func noise(bytes int) []byte {
	out := make([]byte, bytes)
	chacha := rand.NewChaCha8([32]byte{1})
	chacha.Read(out)
	return out
}

func TestBOD_02_AFormGoesWholeToTheWorkerOfItsModel(t *testing.T) {
	for name, spool := range map[string]config.Bytes{"in memory": 0, "in a file": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			w1, w2 := newWorker(t, countsBytes, "whisper"), newWorker(t, countsBytes, "m")
			rt := start(t, func(c *config.Config) { c.BodySpoolBytes, c.BodySpoolDir = spool, folder }, w1, w2)
			boundary := "--==_Odd'(boundary)+_,-./:=?--"
			body := form(t, boundary, noise(5<<20), "language", "de", "stream", "false", "model", "whisper")
			for range 4 {
				r := rt.do(context.Background(), http.MethodPost, "/v1/audio/transcriptions", string(body), "Content-Type", `multipart/form-data; boundary="`+boundary+`"`)
				if r.status != http.StatusOK || r.body != strconv.Itoa(len(body)) {
					t.Fatalf("%d %s", r.status, r.body)
				}
			}
			if w1.count() != 4 || w2.count() != 0 {
				t.Errorf("the audio model got %d, the text model %d", w1.count(), w2.count())
			}
			for _, c := range w1.calls() {
				if !bytes.Equal(c.body, body) || !strings.Contains(c.r.Header.Get("Content-Type"), boundary) {
					t.Error("the form is not byte for byte what was sent")
				}
			}
			if left, _ := os.ReadDir(folder); len(left) != 0 {
				t.Errorf("%d files are left in the spool folder", len(left))
			}
			rt.idle()
		})
	}
}

func TestBOD_02_AFormIsTriedElsewhereFromItsStart(t *testing.T) {
	dead := newWorker(t, func(c *call) { c.reset() }, "whisper")
	well := newWorker(t, countsBytes, "whisper")
	rt := start(t, func(c *config.Config) { c.BodySpoolBytes = 64 << 10; c.Policy = "round-robin" }, dead, well)
	body := form(t, "b", noise(1<<20), "model", "whisper")
	for range 6 {
		r := rt.do(context.Background(), http.MethodPost, "/v1/audio/transcriptions", string(body), "Content-Type", "multipart/form-data; boundary=b")
		if r.status != http.StatusOK || r.body != strconv.Itoa(len(body)) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

func TestBOD_02_AFormWithoutItsModelIsRefusedInWords(t *testing.T) {
	rt := start(t, nil, newWorker(t, countsBytes, "a"), newWorker(t, countsBytes, "b"))
	whole := form(t, "b", noise(1000), "language", "de")
	for name, run := range map[string]struct{ body, kind, want string }{
		"no part":      {string(whole), "multipart/form-data; boundary=b", "no part named model"},
		"cut short":    {string(whole[:len(whole)-20]), "multipart/form-data; boundary=b", "cannot be read"},
		"not its own":  {string(whole), "multipart/form-data; boundary=c", "cannot be read"},
		"no boundary":  {string(whole), "multipart/form-data", "several"},
		"unknown name": {string(form(t, "b", nil, "model", "c")), "multipart/form-data; boundary=b", "c"},
	} {
		r := rt.do(context.Background(), http.MethodPost, "/v1/audio/transcriptions", run.body, "Content-Type", run.kind)
		if r.status < 400 || r.status > 404 || !strings.Contains(r.body, run.want) || !strings.Contains(r.body, `"error"`) {
			t.Errorf("%s: %d %s, want %q", name, r.status, r.body, run.want)
		}
	}
}

func TestBOD_03_NoPolicyStumblesOverABodyThatIsNotJSON(t *testing.T) {
	for _, policy := range sched.PolicyNames() {
		t.Run(policy, func(t *testing.T) {
			w1, w2 := newWorker(t, nil), newWorker(t, nil)
			rt := start(t, func(c *config.Config) { c.Policy = policy }, w1, w2)
			odd := []reply{
				rt.do(context.Background(), http.MethodPost, "/v1/audio/transcriptions", string(form(t, "b", noise(100), "model", "m")), "Content-Type", "multipart/form-data; boundary=b"),
				rt.do(context.Background(), http.MethodPost, "/v1/chat/completions", ""),
				rt.do(context.Background(), http.MethodPost, "/v1/other", ""),
				rt.do(context.Background(), http.MethodPost, "/v1/chat/completions", "hello", "Content-Type", "text/plain"),
				rt.do(context.Background(), http.MethodPost, "/v1/other", "hello", "Content-Type", "text/plain"),
				rt.do(context.Background(), http.MethodPost, "/score", "\x00\xff", "Content-Type", "application/octet-stream"),
				rt.get("/v1/other?x=1&model=m"),
			}
			for i, r := range odd {
				if r.err != nil || r.status >= 500 || r.status == 0 {
					t.Errorf("request %d: %d %s %v", i, r.status, r.body, r.err)
				}
			}
			if r := rt.post("/v1/chat/completions", chat("and then", false)); r.status != http.StatusOK {
				t.Errorf("a chat after them: %d %s", r.status, r.body)
			}
			if strings.Contains(rt.log.String(), "panic") {
				t.Error("something panicked")
			}
		})
	}
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

func TestBOD_03_ACompressedRequestIsReadForRoutingAndForwardedAsItCame(t *testing.T) {
	a, b := newWorker(t, nil, "a"), newWorker(t, nil, "b")
	rt := start(t, func(c *config.Config) { c.BodyBytesMax = 1 << 20 }, a, b)
	text := packed(strings.Replace(chat("packed", true), `"m"`, `"a"`, 1))
	for _, encoding := range []string{"gzip", "GZip", "x-gzip"} {
		rt.post("/v1/chat/completions", text, "Content-Encoding", encoding)
	}
	if n := len(a.calls()); n != 3 || b.count() != 0 {
		t.Fatalf("its model's worker got %d, the other %d", n, b.count())
	}
	if c := a.calls()[0]; string(c.body) != text || c.r.Header.Get("Content-Encoding") != "gzip" {
		t.Error("it was not forwarded as it came")
	}
	for name, run := range map[string]struct {
		encoding, body string
		status         int
		want           string
	}{
		"a bomb":        {"gzip", packed(strings.Repeat(" ", 2<<20)), 413, "body_bytes_max"},
		"not gzip":      {"gzip", "hello", 400, "Content-Encoding"},
		"cut short":     {"gzip", text[:len(text)-9], 400, "Content-Encoding"},
		"packed text":   {"gzip", packed("hello"), 400, "invalid JSON"},
		"zstd":          {"zstd", "\x28\xb5\x2f\xfd", 415, "zstd"},
		"brotli":        {"br", "x", 415, "br"},
		"several over":  {"gzip, zstd", "x", 415, "gzip, zstd"},
		"zstd, unknown": {"zstd", "x", 415, "?model="},
	} {
		if r := rt.post("/v1/chat/completions", run.body, "Content-Encoding", run.encoding); r.status != run.status || !strings.Contains(r.body, run.want) {
			t.Errorf("%s: %d %s, want %d and %q", name, r.status, r.body, run.status, run.want)
		}
	}
	if r := rt.post("/v1/chat/completions?model=b", "x", "Content-Encoding", "zstd"); r.status != http.StatusOK || b.count() != 1 {
		t.Errorf("zstd with its model in the path: %d %s, %d at its worker", r.status, r.body, b.count())
	}
}
