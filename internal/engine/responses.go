package engine

import (
	json "encoding/json/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// respond is POST /v1/responses. Answers are kept (unless store is false), so that a later request can continue one.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, b *body) error {
	turns, err := b.inputMessages()
	if err != nil {
		return err
	}
	if b.PreviousResponse != "" {
		previous, ok := s.responses.get(b.PreviousResponse)
		if !ok {
			return noResponse(b.PreviousResponse)
		}
		turns = append(previous.turns[:len(previous.turns):len(previous.turns)], turns...)
	}
	var system content
	if b.Instructions != "" {
		system = content{{text: b.Instructions}}
	}
	p := b.chatPrompt(system, turns, s.options.Profile.BlockTokens)
	l, err := s.limits(b, p.tokens, 0)
	if err != nil {
		return err
	}
	f := &responsesForm{
		id: randomID("resp_"), messageID: randomID("msg_"), model: s.options.Model, fingerprint: s.fingerprint,
		created: time.Now().Unix(), previous: b.PreviousResponse, job: s.newJob([]prompt{p}, 1, l, b.Stream),
	}
	if b.Store == nil || *b.Store {
		f.keep = func(answer string, whole []byte) {
			turns = append(turns[:len(turns):len(turns)], message{Role: "assistant", Content: content{{text: answer}}})
			s.responses.put(f.id, response{turns, whole})
		}
	}
	return s.run(w, r, f.job, f)
}

// inputMessages reads the input of /v1/responses: a text or a list of items.
func (b *body) inputMessages() ([]message, error) {
	var items []message
	var err error
	switch b.Input.Kind() {
	case '"':
		var c content
		err = json.Unmarshal(b.Input, &c, readOptions)
		items = []message{{Role: "user", Content: c}}
	case '[':
		err = json.Unmarshal(b.Input, &items, readOptions)
	}
	if err != nil || len(items) == 0 {
		return nil, failf(http.StatusBadRequest, "BadRequestError", "input", "input must be a text or a list with at least one item.")
	}
	return items, nil
}

func noResponse(id string) *failure {
	return failf(http.StatusNotFound, "invalid_request_error", "response_id", "Response with id '%s' not found.", id)
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	found, ok := s.responses.get(r.PathValue("id"))
	if !ok {
		writeFailure(w, false, noResponse(r.PathValue("id")))
		return
	}
	writeBytes(w, http.StatusOK, found.whole)
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.responses.remove(id) {
		writeFailure(w, false, noResponse(id))
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": id, "object": "response", "deleted": true})
}

// response is a kept answer: the conversation up to and including it, and what GET returns.
type response struct {
	turns []message
	whole []byte
}

// responseStore keeps the newest answers.
type responseStore struct {
	mu    sync.Mutex // guards the fields below
	max   int
	byID  map[string]response
	order []string // of arrival; ids that were deleted are still in it
}

func newResponseStore(max int) *responseStore {
	return &responseStore{max: max, byID: make(map[string]response)}
}

func (k *responseStore) get(id string) (response, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.byID[id]
	return r, ok
}

func (k *responseStore) put(id string, r response) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[id] = r
	k.order = append(k.order, id)
	for len(k.order) > k.max {
		delete(k.byID, k.order[0])
		k.order = k.order[1:]
	}
}

func (k *responseStore) remove(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.byID[id]
	delete(k.byID, id)
	return ok
}

// responsesForm is the shape of OpenAI's responses.
type responsesForm struct {
	job                   *job
	id, messageID, model  string
	fingerprint, previous string
	created               int64
	sequence              int
	keep                  func(answer string, whole []byte) // nil when the answer is not to be kept
}

// event appends one event: every one carries its type and its place in the stream.
func (f *responsesForm) event(buf []byte, kind, rest string) []byte {
	data := `{"type":"` + kind + `","sequence_number":` + strconv.Itoa(f.sequence) + rest + `}`
	f.sequence++
	return event(buf, kind, data)
}

// object is the response as it stands: status, then output items and usage where there are any.
func (f *responsesForm) object(status, output, usage string) string {
	previous := "null"
	if f.previous != "" {
		previous = quote(f.previous)
	}
	details := "null"
	if status == "incomplete" {
		details = `{"reason":"max_output_tokens"}`
	}
	return `{"id":"` + f.id + `","object":"response","created_at":` + strconv.FormatInt(f.created, 10) + `,"status":"` + status +
		`","model":` + quote(f.model) + `,"previous_response_id":` + previous + `,"incomplete_details":` + details + `,"error":null` +
		`,"system_fingerprint":` + quote(f.fingerprint) + `,"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"metadata":{}` +
		`,"output":[` + output + `],"usage":` + usage + `}`
}

func (f *responsesForm) part(text string) string {
	return `{"type":"output_text","annotations":[],"logprobs":[],"text":"` + text + `"}`
}

func (f *responsesForm) item(status, parts string) string {
	return `{"type":"message","id":"` + f.messageID + `","role":"assistant","status":"` + status + `","content":[` + parts + `]}`
}

// place says which part of which item an event is about.
func (f *responsesForm) place() string {
	return `,"item_id":"` + f.messageID + `","output_index":0,"content_index":0`
}

func (f *responsesForm) open(buf []byte) []byte {
	started := `,"response":` + f.object("in_progress", "", "null")
	buf = f.event(buf, "response.created", started)
	buf = f.event(buf, "response.in_progress", started)
	buf = f.event(buf, "response.output_item.added", `,"output_index":0,"item":`+f.item("in_progress", ""))
	return f.event(buf, "response.content_part.added", f.place()+`,"part":`+f.part(""))
}

func (f *responsesForm) token(buf []byte, _ int, word []byte) []byte {
	return f.event(buf, "response.output_text.delta", f.place()+`,"logprobs":[],"delta":"`+string(word)+`"`)
}

func (f *responsesForm) end(buf []byte, _ int) []byte {
	text := f.job.choices[0].answer.text()
	buf = f.event(buf, "response.output_text.done", f.place()+`,"logprobs":[],"text":"`+text+`"`)
	buf = f.event(buf, "response.content_part.done", f.place()+`,"part":`+f.part(text))
	return f.event(buf, "response.output_item.done", `,"output_index":0,"item":`+f.item(f.status(), f.part(text)))
}

func (f *responsesForm) close(buf []byte) []byte {
	return f.event(buf, "response."+f.status(), `,"response":`+string(f.whole(nil)))
}

func (f *responsesForm) status() string {
	if f.job.choices[0].answer.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (f *responsesForm) whole(buf []byte) []byte {
	u, text := f.job.usage(1), f.job.choices[0].answer.text()
	usage := `{"input_tokens":` + strconv.Itoa(u.prompt) + `,"input_tokens_details":{"cached_tokens":` + strconv.Itoa(u.cached) +
		`},"output_tokens":` + strconv.Itoa(u.completion) + `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":` +
		strconv.Itoa(u.prompt+u.completion) + `}`
	out := f.object(f.status(), f.item(f.status(), f.part(text)), usage)
	if f.keep != nil {
		f.keep(text, []byte(out))
	}
	return append(buf, out...)
}
