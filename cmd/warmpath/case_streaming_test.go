package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSTR_01_HopByHopHeadersOfAWorkerStopAtTheRouter(t *testing.T) {
	w := newWorker(t, func(c *call) {
		conn := c.raw()
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := range 20 {
			event := deltaOf(fmt.Sprint("word", i))
			fmt.Fprintf(conn, "%x\r\n%s\r\n", len(event), event)
			if !c.wait(10 * time.Millisecond) {
				return
			}
		}
		end := "data: [DONE]\n\n"
		fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(end), end)
	})
	rt := start(t, nil, w)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		resp, err := rt.open(t.Context(), path, strings.Replace(chat("hop "+path, true), `"messages"`, `"input":"x","messages"`, 1))
		if err != nil {
			t.Fatal(err)
		}
		next, n := eventsOf(resp), 0
		for {
			event, err := next()
			if err != nil {
				break
			}
			if strings.HasPrefix(event, "data:") {
				n++
			}
		}
		resp.Body.Close()
		if n != 21 {
			t.Errorf("%s: %d events, want 20 and the terminator", path, n)
		}
		for _, name := range []string{"Content-Length", "Keep-Alive", "X-Hop", "Connection"} {
			if v := resp.Header.Get(name); v != "" {
				t.Errorf("%s: the client sees %s: %s", path, name, v)
			}
		}
	}
}

func TestSTR_02_HeadersLeaveBeforeTheFirstEvent(t *testing.T) {
	release := make(chan struct{})
	w := newWorker(t, func(c *call) {
		c.events()
		<-release
		c.send(deltaOf("late"))
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, nil, w)
	resp, err := rt.open(t.Context(), "/v1/chat/completions", chat("silent prefill", true)) // returns only when the head has come
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("X-Warmpath-Worker"); got != "" {
		t.Errorf("the head names worker %s before it is certain who answers", got)
	}
	close(release)
	if event, err := eventsOf(resp)(); err != nil || !strings.Contains(event, "late") {
		t.Errorf("first event: %q, %v", event, err)
	}
}

func TestSTR_03_UsageIsReadFromEveryFramingOfEvents(t *testing.T) {
	usage := `{"id":"x","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107}}`
	content := `{"id":"x","choices":[{"index":0,"delta":{"content":"hi"}}]}`
	streams := map[string]string{
		"LF":       "data: " + content + "\n\ndata: " + usage + "\n\ndata: [DONE]\n\n",
		"CRLF":     "data: " + content + "\r\n\r\ndata: " + usage + "\r\n\r\ndata: [DONE]\r\n\r\n",
		"CR":       "data: " + content + "\r\rdata: " + usage + "\r\rdata: [DONE]\r\r",
		"no space": "data:" + content + "\n\ndata:" + usage + "\n\ndata:[DONE]\n\n",
		"two data": "data: " + content + "\n\ndata: " + usage[:30] + "\ndata: " + usage[30:] + "\n\ndata: [DONE]\n\n",
	}
	for name, text := range streams {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, func(c *call) { c.events(); c.send(text) })
			rt := start(t, nil, w)
			body := strings.Replace(chat("framing", true), `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
			if r := rt.post("/v1/chat/completions", body); r.body != text {
				t.Errorf("the client got %q, the worker sent %q", r.body, text)
			}
			if p, c := rt.metric("warmpath_prompt_tokens_total"), rt.metric("warmpath_completion_tokens_total"); p != 100 || c != 7 {
				t.Errorf("counted %v prompt and %v completion tokens, want 100 and 7", p, c)
			}
		})
	}
}

func TestSTR_04_CommentsStayComments(t *testing.T) {
	var sent strings.Builder
	w := newWorker(t, func(c *call) {
		say := func(s string) { sent.WriteString(s); c.send(s) }
		c.events()
		for range 5 {
			say(": warming up\n\n")
			c.wait(10 * time.Millisecond)
		}
		for i := range 5 {
			say(deltaOf(fmt.Sprint("w", i)))
			if i == 2 {
				say(": still here\n\n")
			}
		}
		say("data: [DONE]\n\n")
	})
	rt := start(t, nil, w)
	r := rt.post("/v1/chat/completions", chat("comments", true))
	if r.body != sent.String() {
		t.Errorf("the client got %q, the worker sent %q", r.body, sent.String())
	}
	if got := rt.metric("warmpath_requests_total", `outcome="succeeded"`); got != 1 {
		t.Errorf("%v succeeded requests, want 1", got)
	}
}

func TestSTR_06_ABrokenStreamNeverLooksComplete(t *testing.T) {
	breaks := map[string]func(c *call){
		"reset": func(c *call) {
			conn := c.raw()
			io.WriteString(conn, chunkedHead)
			for i := range 5 {
				writeChunk(conn, deltaOf(fmt.Sprint("w", i)))
			}
			c.wait(50 * time.Millisecond) // a reset overtakes bytes that were not read yet
			conn.SetLinger(0)
			conn.Close()
		},
		"no last chunk": func(c *call) {
			conn := c.raw()
			io.WriteString(conn, chunkedHead)
			for i := range 5 {
				writeChunk(conn, deltaOf(fmt.Sprint("w", i)))
			}
			conn.Close()
		},
		"half a chunk": func(c *call) {
			conn := c.raw()
			io.WriteString(conn, chunkedHead)
			writeChunk(conn, deltaOf("w"))
			io.WriteString(conn, "ff\r\ndata: {\"choi")
			conn.Close()
		},
	}
	for name, script := range breaks {
		t.Run(name, func(t *testing.T) {
			rt := start(t, nil, newWorker(t, script))
			r := rt.post("/v1/chat/completions", chat("break", true))
			if r.err == nil {
				t.Errorf("the client's stream ended cleanly: %q", r.body)
			}
			if !strings.Contains(r.body, `data: {"error":`) || strings.Contains(r.body, "[DONE]") {
				t.Errorf("want an error event and no invented terminator, got %q", r.body)
			}
			if got := rt.metric("warmpath_requests_total", `outcome="failed"`); got != 1 {
				t.Errorf("%v failed requests, want 1", got)
			}
		})
	}
	t.Run("clean end without terminator", func(t *testing.T) {
		rt := start(t, nil, newWorker(t, func(c *call) { c.events(); c.send(deltaOf("w")) }))
		r := rt.post("/v1/chat/completions", chat("no end", true))
		if r.err != nil || r.body != deltaOf("w") {
			t.Errorf("got %q, %v; want what the worker sent and a clean end", r.body, r.err)
		}
		if got := rt.metric("warmpath_streams_without_terminator_total"); got != 1 {
			t.Errorf("%v streams flagged, want 1", got)
		}
	})
}

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func writeChunk(w io.Writer, text string) { fmt.Fprintf(w, "%x\r\n%s\r\n", len(text), text) }

func TestSTR_07_WriteBordersAreNotEventBorders(t *testing.T) {
	text := deltaOf("日本語のテスト") + deltaOf("emoji 👩‍👩‍👧 family") + usageEvent(50, 9, 0) + "data: [DONE]\n\n"
	var packed strings.Builder
	for i := range 10 {
		packed.WriteString(deltaOf(fmt.Sprint("w", i)))
	}
	packed.WriteString(usageEvent(50, 9, 0) + "data: [DONE]\n\n")
	for _, run := range []struct {
		name, text string
		size       int
	}{{"1 byte", text, 1}, {"3 bytes", text, 3}, {"7 bytes", text, 7}, {"all at once", packed.String(), packed.Len()}} {
		t.Run(run.name, func(t *testing.T) {
			came := make(chan int, len(run.text)) // at the client, bytes in all
			w := newWorker(t, func(c *call) {
				c.events()
				at := strings.Index(run.text, "\n\n") + 2 // the first event waits until it is whole
				c.send(run.text[:at])
				for there := 0; at < len(run.text); { // each piece when all before it is with the client, or some would be read together
					for there < at {
						select {
						case there = <-came:
						case <-c.gone:
							return
						}
					}
					n := min(run.size, len(run.text)-at)
					c.send(run.text[at : at+n])
					at += n
				}
			})
			rt := start(t, nil, w)
			body := strings.Replace(chat("borders", true), `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
			resp, err := rt.open(t.Context(), "/v1/chat/completions", body)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var got []byte
			for buf := make([]byte, 4096); err == nil; came <- len(got) {
				var n int
				n, err = resp.Body.Read(buf)
				got = append(got, buf[:n]...)
			}
			if string(got) != run.text || err != io.EOF {
				t.Errorf("got %q and %v, want %q", got, err, run.text)
			}
			rt.idle()
			if p, c := rt.metric("warmpath_prompt_tokens_total"), rt.metric("warmpath_completion_tokens_total"); p != 50 || c != 9 {
				t.Errorf("counted %v and %v tokens, want 50 and 9", p, c)
			}
		})
	}
}

func TestSTR_08_TheUsageEventReachesOnlyThoseWhoAsked(t *testing.T) {
	w := newWorker(t, func(c *call) {
		c.events()
		c.send(deltaOf("a"))
		c.send(deltaOf("b"))
		if strings.Contains(string(c.body), `"include_usage":true`) {
			c.send(usageEvent(12, 2, 4))
		}
		c.send("data: [DONE]\n\n")
	})
	w.onGet(asVLLM("m"))
	rt := start(t, nil, w)
	eventually(t, "the worker to be known as vLLM", func() bool { return rt.state().Workers[0].Engine == "vllm" })
	for _, ask := range []struct {
		option string
		events int
	}{{``, 0}, {`,"stream_options":{"include_usage":false}`, 0}, {`,"stream_options":{"include_usage":true}`, 1}} {
		before := rt.metric("warmpath_completion_tokens_total")
		r := rt.post("/v1/chat/completions", strings.Replace(chat("usage"+ask.option, true), `"stream":true`, `"stream":true`+ask.option, 1))
		if n := strings.Count(r.body, `"choices":[]`); n != ask.events {
			t.Errorf("with %q the client got %d usage events, want %d: %s", ask.option, n, ask.events, r.body)
		}
		if !strings.HasSuffix(r.body, "data: [DONE]\n\n") || strings.Count(r.body, `"content"`) != 2 {
			t.Errorf("with %q the answer is not whole: %q", ask.option, r.body)
		}
		if got := rt.metric("warmpath_completion_tokens_total") - before; got != 2 {
			t.Errorf("with %q %v tokens were counted, want 2", ask.option, got)
		}
	}
	if sent := string(w.calls()[0].body); !strings.Contains(sent, `"include_usage":true`) {
		t.Errorf("usage was not asked for on the client's behalf: %s", sent)
	}
}

// asVLLM answers detection as a vLLM that serves model does.
func asVLLM(model string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			io.WriteString(w, `{"version":"0.32.0"}`)
		case "/v1/models":
			fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","owned_by":"vllm","max_model_len":8192}]}`, model)
		case "/health":
		case "/metrics":
			fmt.Fprintf(w, "vllm:num_requests_running{engine=\"0\",model_name=%q} 0\nvllm:num_requests_waiting{engine=\"0\",model_name=%q} 0\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=%q} 0\n", model, model, model)
		default:
			http.NotFound(w, r)
		}
	}
}

func TestSTR_09_EventsAreNotGatheredForAClientThatTakesCompression(t *testing.T) {
	step := make(chan struct{})
	w := newWorker(t, func(c *call) {
		c.events()
		for i := range 10 {
			<-step
			c.send(deltaOf(fmt.Sprint("w", i)))
		}
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, nil, w)
	resp, err := rt.open(t.Context(), "/v1/chat/completions", chat("gzip", true), "Accept-Encoding", "gzip, br, zstd")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	next := eventsOf(resp)
	for i := range 10 {
		step <- struct{}{} // the worker writes its next event only when the last has been read here
		if event, err := next(); err != nil || event != deltaOf(fmt.Sprint("w", i)) {
			t.Fatalf("event %d: %q, %v", i, event, err)
		}
	}
	if got := resp.Header.Get("Content-Encoding"); got != "" {
		t.Errorf("the stream came with Content-Encoding %s", got)
	}
}

func TestSTR_10_AnErrorAsTheFirstEventIsTriedElsewhereAndCountedAsFailure(t *testing.T) {
	for _, dialect := range []struct{ name, path, event, good string }{
		{"OpenAI", "/v1/chat/completions", "data: {\"error\":{\"message\":\"boom\",\"type\":\"internal_error\"}}\n\ndata: [DONE]\n\n", deltaOf("fine") + "data: [DONE]\n\n"},
		{"Anthropic", "/v1/messages", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"boom\"}}\n\n",
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":5,\"output_tokens\":0}}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
	} {
		t.Run(dialect.name, func(t *testing.T) {
			bad := newWorker(t, func(c *call) { c.events(); c.send(dialect.event) })
			good := newWorker(t, func(c *call) { c.events(); c.send(dialect.good) })
			rt := start(t, nil, bad, good)
			for i := range 12 {
				r := rt.post(dialect.path, chat(fmt.Sprint("first event ", i), true))
				if r.body != dialect.good {
					t.Fatalf("request %d: got %q, want the other worker's answer alone", i, r.body)
				}
			}
			if bad.count() == 0 {
				t.Fatal("no request ever went to the failing worker")
			}
			if got := rt.metric("warmpath_upstream_errors_total", `worker="w1"`); got != float64(bad.count()) {
				t.Errorf("%v errors counted against the failing worker, want %d", got, bad.count())
			}
		})
		t.Run(dialect.name+" with nobody else", func(t *testing.T) {
			bad := newWorker(t, func(c *call) { c.events(); c.send(dialect.event) })
			rt := start(t, nil, bad)
			r := rt.post(dialect.path, chat("alone", true))
			if r.body != dialect.event {
				t.Errorf("got %q, want the error event unchanged, once", r.body)
			}
			if got := rt.metric("warmpath_requests_total", `outcome="failed"`); got != 1 {
				t.Errorf("%v failed requests, want 1", got)
			}
		})
	}
}

func TestSHD_01_AStreamCutAtTheDrainLimitEndsWithAnErrorEvent(t *testing.T) {
	w := newWorker(t, func(c *call) { c.events(); c.send(deltaOf("a")); c.stall() })
	rt := start(t, nil, w)
	resp, err := rt.open(t.Context(), "/v1/chat/completions", chat("drain", true))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	next := eventsOf(resp)
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as a second signal does: no time is left
	if cut := rt.Drain(ctx, time.Minute); cut != 1 {
		t.Errorf("%d requests cut off, want 1", cut)
	}
	event, _ := next()
	if !strings.Contains(event, `"error"`) {
		t.Errorf("the cut stream ended with %q, want an error event", event)
	}
	if _, err := next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the cut stream ended cleanly")
	}
}
