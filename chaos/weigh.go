package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
)

// weigh says what a request came to, or what is wrong with that. j.mu is held.
func (j *judge) weigh(res *result, tries []*attempt) (verdict, string) {
	switch {
	case res.surplus > 0:
		return "", fmt.Sprintf("%d bytes came behind the answer", res.surplus)
	case res.left:
		return gone, j.part(res, tries)
	case res.status == 0 && j.lost(res):
		return lost, ""
	case res.behind:
		return behind, ""
	}
	switch res.r.kind {
	case crawls, garbage, floods, smuggles:
		return rejected, res.refusedRudely()
	case badJSON:
		return rejected, j.refusal(res, http.StatusBadRequest)
	case noModel:
		return rejected, j.refusal(res, http.StatusNotFound)
	case tooLarge:
		return rejected, j.refusal(res, http.StatusRequestEntityTooLarge)
	case lists:
		return right, j.list(res)
	}
	return j.answer(res, tries)
}

// refusedRudely is for what is no request: whatever it is told, it may not be answered well.
func (res *result) refusedRudely() string {
	if res.status >= 200 && res.status < 300 {
		return fmt.Sprintf("%s was answered with status %d", res.r.kind, res.status)
	}
	return ""
}

// refusal is for requests that are wrong: one status, in their dialect.
func (j *judge) refusal(res *result, status int) string {
	switch {
	case res.status == http.StatusServiceUnavailable && j.routerTouched(res.began, res.end):
		return ""
	case res.status != status:
		return fmt.Sprintf("%s was answered with status %d, want %d (%v)", res.r.kind, res.status, status, res.err)
	}
	return res.clearError()
}

// clearError says what is wrong with an error answer.
func (res *result) clearError() string {
	switch {
	case !res.clean:
		return fmt.Sprintf("an error answer that is not whole: %v", res.err)
	case !strings.HasPrefix(res.header.Get("Content-Type"), "application/json"):
		return fmt.Sprintf("an error answer of type %q", res.header.Get("Content-Type"))
	case res.header.Get("X-Request-Id") == "":
		return "an error answer without X-Request-Id"
	case !isError(res.r.want.api, res.body):
		return fmt.Sprintf("an error answer that is not in the dialect of its request: %.200q", res.body)
	}
	return ""
}

// isError says whether a JSON text is an error of the API's dialect, with a type and a message.
func isError(a api, text []byte) bool {
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	return json.Unmarshal(text, &e) == nil && e.Error.Message != "" && e.Error.Type != "" && (a != messages || e.Type == "error")
}

func (j *judge) list(res *result) string {
	path := listed[res.r.variant%len(listed)]
	switch {
	case !res.clean:
		return fmt.Sprintf("%s was not answered whole: %v", path, res.err)
	case path == "/nowhere" && res.status == http.StatusNotFound, res.status == http.StatusOK && path != "/nowhere":
		return ""
	case j.routerTouched(res.began, res.end), path == "/v1/models/alpha" && j.touched(&request{want: want{model: alpha}}, res.began, res.end):
		return ""
	}
	return fmt.Sprintf("%s was answered with status %d", path, res.status)
}

// part is for clients that left: what they got must be the beginning of what some worker said, or of an error.
func (j *judge) part(res *result, tries []*attempt) string {
	if res.status != http.StatusOK || len(res.body) == 0 {
		return ""
	}
	for _, a := range tries {
		view := a.Mode.says(res.r.ask, a.wanted(), a.Tag).view(res.r.want.usage)
		if text, told := res.cutError(); begins(view, text, told) {
			return ""
		}
	}
	return "the client left with bytes that no worker sent"
}

// answer is for requests that are right.
func (j *judge) answer(res *result, tries []*attempt) (verdict, string) {
	touched := j.touched(res.r, res.began, res.end)
	switch {
	case !res.connected:
		return "", fmt.Sprintf("no connection: %v", res.err)
	case res.status == 0 && res.r.kind == ancient && touched && errors.Is(res.err, syscall.ECONNRESET):
		return broken, "" // which may overtake what came before it
	case res.status == 0:
		return "", fmt.Sprintf("no answer: %v", res.err)
	case res.status != http.StatusOK:
		return j.errorAnswer(res, tries, touched)
	}
	if named := res.header.Get("X-Warmpath-Worker"); named != "" && !slices.ContainsFunc(tries, func(a *attempt) bool { return a.worker() == named }) {
		return "", "the answer names worker " + named + ", which never got the request"
	}
	text, told := res.cutError()
	whole := res.clean && (res.r.kind != ancient || !told) // by HTTP/1.0 a stream has no end but an event that says so
	for _, a := range slices.Backward(tries) {
		s := a.Mode.says(res.r.ask, a.wanted(), a.Tag)
		view := s.view(res.r.want.usage)
		ends := s.whole || res.r.want.stream && strings.HasSuffix(view, res.r.terminator()) // what comes behind a stream's last event is of no interest
		switch {
		case s.status != http.StatusOK:
			continue
		case res.clean && string(res.body) == view:
			if !ends {
				return "", fmt.Sprintf("the answer looks whole, but worker %s broke it off (%s)", a.worker(), a.Mode)
			}
			return right, ""
		case whole || !begins(view, text, told):
			continue
		}
		return broken, j.brokenAnswer(res, text, told, s.whole && !touched)
	}
	if told && text == "" && !res.clean { // the head had left when it turned out that nobody could answer
		return broken, ""
	}
	return "", fmt.Sprintf("the answer (clean %t, %v) is not what any worker sent", res.clean, res.err)
}

// begins says that a view begins with what a client got. Before an error event half an event may have been ended.
func begins(view, text string, told bool) bool {
	for n := 0; n <= 2; n++ {
		if strings.HasPrefix(view, text) {
			return true
		}
		if !told || !strings.HasSuffix(text, "\n") {
			return false
		}
		text = text[:len(text)-1]
	}
	return false
}

// brokenAnswer is for the beginning of what a worker said. It must break off, and a stream must say why.
func (j *judge) brokenAnswer(res *result, text string, told, unprovoked bool) string {
	switch {
	case unprovoked:
		return fmt.Sprintf("the answer broke off (%v), though nothing was wrong with its worker", res.err)
	case j.lost(res):
		return ""
	case res.r.want.stream && !told:
		return fmt.Sprintf("the stream broke off (%v) without an error in its dialect", res.err)
	case told && text != "" && !strings.HasSuffix(text, "\n\n"):
		return "an error event was joined to half an event"
	}
	return ""
}

// errorAnswer is for requests that are right and got an error: a worker's own, or one that the router made.
func (j *judge) errorAnswer(res *result, tries []*attempt, touched bool) (verdict, string) {
	for _, a := range tries {
		if s := a.Mode.says(res.r.ask, a.wanted(), a.Tag); s.status == res.status && string(res.body) == s.view(false) && res.clean {
			return refused, ""
		}
	}
	said := slices.ContainsFunc(tries, func(a *attempt) bool { return a.Mode == e500 }) // a status that a worker gave may be told without its words
	switch res.status {
	case http.StatusInternalServerError:
		if !said {
			return "", fmt.Sprintf("status 500, which no worker gave: %.200q", res.body)
		}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return "", fmt.Sprintf("a good request was answered with status %d: %.200q", res.status, res.body)
	}
	if !touched {
		return "", fmt.Sprintf("status %d, though nothing was wrong: %.200q", res.status, res.body)
	}
	return refused, res.clearError()
}

// terminator is what the API's streams end with.
func (r *request) terminator() string {
	if r.want.api == messages {
		return "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	return "data: [DONE]\n\n"
}

// cutError takes the error event off that ends a broken stream, and says whether there is one.
func (res *result) cutError() (text string, told bool) {
	begin := "data: {\"error\":"
	if res.r.want.api == messages {
		begin = "event: error\ndata: "
	}
	at := bytes.LastIndex(res.body, []byte(begin))
	if !res.r.want.stream || at < 0 || !bytes.HasSuffix(res.body, []byte("}\n\n")) {
		return string(res.body), false
	}
	data := res.body[at:]
	data = data[bytes.Index(data, []byte("data: "))+len("data: ") : len(data)-2]
	if !isError(res.r.want.api, data) {
		return string(res.body), false
	}
	return string(res.body[:at]), true
}
