package llmapi

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// capture is the body of a recorded reply: a raw HTTP response, or a status line and headers as JSON before it.
func capture(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(raw, []byte("HTTP/1.1")) {
		_, body, _ := bytes.Cut(raw, []byte("\n\n"))
		return body
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// feed runs a stream through s in pieces of that size (0: in one) and returns what was forwarded.
func feed(s *Stream, stream []byte, size int) []byte {
	var out []byte
	for len(stream) > 0 {
		n := len(stream)
		if size > 0 {
			n = min(size, n)
		}
		piece := bytes.Clone(stream[:n]) // Feed must not keep what it was lent
		out = append(out, s.Feed(piece)...)
		for i := range piece {
			piece[i] = '!'
		}
		stream = stream[n:]
	}
	return append(out, s.Flush()...)
}

// seen is what a stream has told, for comparison.
type seen struct {
	Events, Tokens, Withheld int
	First, ErrFirst, Done    bool
	Usage                    Usage
	ID, Err, Outcome         string
}

func (s *Stream) seen() seen {
	return seen{s.Events, s.Tokens, s.Withheld, s.FirstContent, s.FirstEventIsError, s.Done, s.Usage, s.ID, s.Err, s.Outcome}
}

func known(prompt, completion, cached int) Usage {
	return Usage{prompt, completion, cached, true, true, true}
}

func TestRecordedStreamsAreObserved(t *testing.T) {
	cases := []struct {
		name string
		api  API
		want seen
	}{
		{"llamacpp/chat_stream_usage_raw.txt", Chat, seen{Events: 11, Tokens: 7, First: true, Done: true, Usage: known(38, 8, 37), ID: "chatcmpl-Sb3ejflcqTkSXYxSI6gneokHqNMLDcJn"}},
		{"llamacpp/chat_stream_raw.txt", Chat, seen{Events: 10, Tokens: 7, First: true, Done: true, Usage: known(38, 8, 37), ID: "chatcmpl-8qwoHhd8kRwNY0QK9lDu4yIoBZKa0E5M"}},
		{"llamacpp/chat_stream_progress_raw.txt", Chat, seen{Events: 12, Tokens: 7, First: true, Done: true, Usage: known(38, 8, 37), ID: "chatcmpl-wL0fXjaEnAbOnJiSyZ1cjZFfJulYUxtC"}},
		{"llamacpp/messages_stream_raw.txt", Messages, seen{Events: 9, Tokens: 4, First: true, Done: true, Usage: known(32, 4, 31), ID: "chatcmpl-Bn5K36ubgLWvzOiOvoO9mnJObonKHYeF"}},
		{"vllm/chat_stream.txt", Chat, seen{Events: 11, Tokens: 8, First: true, Done: true, Usage: known(220, 8, 192), ID: "chatcmpl-ac27c8ba303d7340"}},
		{"vllm/chat_continuous_usage.txt", Chat, seen{Events: 5, Tokens: 2, First: true, Done: true, Usage: known(220, 2, 192), ID: "chatcmpl-bc86401befe1ff1f"}},
	}
	for _, c := range cases {
		stream := capture(t, c.name)
		for _, size := range []int{0, 1, 3, 7, 100} { // STR-07
			var s Stream
			s.Reset(c.api, false)
			if got := feed(&s, stream, size); !bytes.Equal(got, stream) {
				t.Errorf("%s in pieces of %d: bytes changed", c.name, size)
			}
			if s.seen() != c.want {
				t.Errorf("%s in pieces of %d:\n got %+v\nwant %+v", c.name, size, s.seen(), c.want)
			}
		}
	}
}

const usageEvent = `{"id":"c","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}`

func TestSTR03EveryFramingIsUnderstood(t *testing.T) {
	delta := `{"id":"c","choices":[{"delta":{"content":"你😀"}}]}`
	lf := "data: " + delta + "\n\ndata: " + usageEvent + "\n\ndata: [DONE]\n\n"
	half := strings.Index(usageEvent, `"usage"`)
	streams := map[string]string{
		"LF":          lf,
		"CRLF":        strings.ReplaceAll(lf, "\n", "\r\n"),
		"CR":          strings.ReplaceAll(lf, "\n", "\r"),
		"no space":    strings.ReplaceAll(lf, "data: ", "data:"),
		"two lines":   strings.Replace(lf, usageEvent, usageEvent[:half]+"\ndata: "+usageEvent[half:], 1),
		"comments":    ": warming up\n\n: again\n" + strings.ReplaceAll(lf, "\n\n", "\n: in the middle\n\n"),
		"byte order":  "\xef\xbb\xbf" + lf,
		"other field": "id: 1\nretry: 5\n" + strings.ReplaceAll(lf, "data", "id: 2\ndata"),
		"no end":      strings.TrimSuffix(lf, "\n\n"),
	}
	want := seen{Events: 3, Tokens: 1, First: true, Done: true, Usage: known(10, 2, 8), ID: "c"}
	for name, stream := range streams {
		for size := range 12 {
			var s Stream
			s.Reset(Chat, false)
			if got := feed(&s, []byte(stream), size); string(got) != stream {
				t.Errorf("%s in pieces of %d: bytes changed: %q", name, size, got)
			}
			if s.seen() != want {
				t.Errorf("%s in pieces of %d:\n got %+v\nwant %+v", name, size, s.seen(), want)
			}
			s.Reset(Chat, true)
			got := feed(&s, []byte(stream), size)
			if s.Withheld != 1 || bytes.Contains(got, []byte(`"usage"`)) || !bytes.Contains(got, []byte(delta)) || !bytes.Contains(got, []byte("[DONE]")) {
				t.Errorf("%s in pieces of %d, usage withheld: %q", name, size, got)
			}
		}
	}
}

func TestSTR08OnlyTheUsageEventIsWithheld(t *testing.T) {
	const a, b, done = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":null}\n\n", "data: {\"choices\":[],\"prompt_filter_results\":[1]}\n\n", "data: [DONE]\n\n"
	stream := a + b + ": ping\n\n" + "data: " + usageEvent + "\n\n" + done
	for size := range 60 {
		var s Stream
		s.Reset(Completions, true)
		if got := string(feed(&s, []byte(stream), size)); got != a+b+": ping\n\n"+done {
			t.Errorf("in pieces of %d: %q", size, got)
		}
		if s.Usage != known(10, 2, 8) {
			t.Errorf("in pieces of %d: usage %+v", size, s.Usage)
		}
	}
	var s Stream
	for _, api := range []API{Messages, Responses} {
		s.Reset(api, true)
		if got := s.Feed([]byte(stream)); string(got) != stream {
			t.Errorf("%s: something was withheld", api)
		}
	}
}

func TestAWholeEventIsForwardedAtOnce(t *testing.T) {
	var s Stream
	s.Reset(Chat, true)
	for _, piece := range []string{"data: {\"choices\":[{}]}\n\n", ": comment\n", "\n", "data: x\n\n"} {
		if got := s.Feed([]byte(piece)); string(got) != piece {
			t.Errorf("Feed(%q) forwarded %q", piece, got)
		}
	}
	if got := s.Feed([]byte("data: {\"cho")); len(got) != 0 {
		t.Errorf("half an event left: %q", got)
	}
	if got := s.Feed([]byte("ices\":[]}\n\n")); string(got) != "data: {\"choices\":[]}\n\n" {
		t.Errorf("the event left as %q", got)
	}
}

func TestSTR10AnErrorAsFirstEventIsNoticed(t *testing.T) {
	cases := []struct {
		name, stream string
		api          API
		err          string
		first        bool
	}{
		{"OpenAI", "data: {\"error\":{\"message\":\"m\",\"type\":\"internal_error\",\"code\":500}}\n\ndata: [DONE]\n\n", Chat, "internal_error", true},
		{"a string", "data: {\"error\":\"broken\"}\n\n", Chat, "broken", true},
		{"flat", "data: {\"object\":\"error\",\"message\":\"m\",\"code\":400}\n\n", Chat, "400", true},
		{"Anthropic", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n", Messages, "overloaded_error", true},
		{"after a ping", "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\n\n", Messages, "api_error", true},
		{"by its name alone", "event: error\ndata: oops\n\n", Chat, "error", true},
		{"later", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"error\":{\"type\":\"t\"}}\n\n", Chat, "t", false},
		{"null is none", "data: {\"error\":null,\"choices\":[]}\n\n", Chat, "", false},
	}
	for _, c := range cases {
		var s Stream
		s.Reset(c.api, true)
		if got := feed(&s, []byte(c.stream), 0); string(got) != c.stream {
			t.Errorf("%s: changed to %q", c.name, got)
		}
		if s.Err != c.err || s.FirstEventIsError != c.first {
			t.Errorf("%s: error %q, first %v", c.name, s.Err, s.FirstEventIsError)
		}
	}
}

func TestRSP02TheOutcomeOfAResponseIsObserved(t *testing.T) {
	const begin = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"usage\":null,\"error\":null}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n" +
		"event: response.reasoning_text.delta\ndata: {\"type\":\"response.reasoning_text.delta\",\"delta\":\"b\"}\n\n" +
		"event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"text\":\"a\"}\n\n"
	const usage = `"usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}`
	cases := []struct {
		end  string
		want seen
	}{
		{`{"type":"response.completed","response":{"id":"resp_1","status":"completed",` + usage + `}}`, seen{Done: true, Outcome: "completed", Usage: known(9, 2, 4)}},
		{`{"type":"response.incomplete","response":{"id":"resp_1",` + usage + `}}`, seen{Done: true, Outcome: "incomplete", Usage: known(9, 2, 4)}},
		{`{"type":"response.failed","response":{"id":"resp_1","error":{"code":"server_error","message":"m"}}}`, seen{Done: true, Outcome: "failed", Err: "server_error"}},
		{`{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}`, seen{Outcome: "failed", Err: "rate_limit_exceeded"}},
	}
	for _, c := range cases {
		var s Stream
		s.Reset(Responses, true)
		stream := begin + "event: x\ndata: " + c.end + "\n\n"
		if got := feed(&s, []byte(stream), 5); string(got) != stream {
			t.Errorf("%s: changed", c.end)
		}
		c.want.ID, c.want.Events, c.want.Tokens, c.want.First = "resp_1", 5, 2, true
		if s.seen() != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.end, s.seen(), c.want)
		}
	}
}

func TestSEC06ALineBeyondTheBoundPassesUnobservedInBoundedMemory(t *testing.T) {
	for _, begin := range []string{"data: {\"x\":\"", ": comment "} {
		long := []byte(begin + strings.Repeat("x", 10<<20) + "\n\n")
		tail := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
		for _, withhold := range []bool{false, true} {
			var s Stream
			s.Reset(Chat, withhold)
			got := feed(&s, append(bytes.Clone(long), tail...), 32<<10)
			if len(got) != len(long)+len(tail) || !bytes.HasSuffix(got, tail) || s.Tokens != 1 {
				t.Errorf("%s, withhold %v: %d bytes, %d tokens", begin, withhold, len(got), s.Tokens)
			}
			if kept := cap(s.line) + cap(s.held) + cap(s.dataKept) + cap(s.out); kept > 8<<20 {
				t.Errorf("%s, withhold %v: %d bytes kept", begin, withhold, kept)
			}
		}
	}
}

func TestManyDataLinesAreBoundedToo(t *testing.T) {
	var s Stream
	s.Reset(Chat, true)
	lines := []byte(strings.Repeat("data: 0123456789\n", 1000))
	for range 1000 {
		s.Feed(lines)
	}
	if len(s.dataKept) > eventBytesMax || len(s.held) > eventBytesMax {
		t.Errorf("kept %d and %d bytes", len(s.dataKept), len(s.held))
	}
}

func TestSTR06AnEventCutShortIsNotObserved(t *testing.T) {
	var s Stream
	s.Reset(Chat, true)
	const cut = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}"
	if got := feed(&s, []byte(cut), 4); string(got) != cut {
		t.Errorf("forwarded %q", got)
	}
	if s.Events != 0 || s.Tokens != 0 || s.Done {
		t.Errorf("%+v", s.seen())
	}
}

func TestAResetStreamRemembersNothing(t *testing.T) {
	var s, fresh Stream
	s.Reset(Chat, true)
	s.Feed([]byte("event: error\ndata: {\"id\":\"x\",\"error\":{\"type\":\"t\"},\"usage\":{\"prompt_tokens\":5}}\n\ndata: [DONE]\r"))
	s.Reset(Messages, false)
	fresh.Reset(Messages, false)
	if s.seen() != fresh.seen() {
		t.Errorf("%+v", s.seen())
	}
	s.Feed([]byte("\ndata: {\"type\":\"message_stop\"}\n\n"))
	if s.Events != 1 || !s.Done {
		t.Errorf("%+v", s.seen())
	}
}

func TestAnEventThatFollowsHalfAnEventIsReadByItself(t *testing.T) {
	const whole = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for _, withhold := range []bool{false, true} {
		for at := range len(whole) + 1 {
			var s Stream
			s.Reset(Chat, withhold)
			sent := string(s.Feed([]byte(whole))) + string(s.Feed([]byte(whole[:at])))
			sent += s.Gap() + string(ErrorEvent(OpenAI, Chat, KindUpstream, "broke"))
			events := strings.Split(strings.TrimRight(sent, "\n"), "\n\n")
			if last := events[len(events)-1]; !strings.HasPrefix(last, "data: {\"error\":") {
				t.Errorf("withhold %t, cut at %d: the last event is %q", withhold, at, last)
			}
		}
	}
}
