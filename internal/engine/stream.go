package engine

import (
	"encoding/json/jsontext"
	"net/http"
	"strconv"
)

// form is the shape of one API's answer. Its methods append what goes on the wire and keep no bytes; a form belongs to
// one request and is used by its handler only.
type form interface {
	// open appends what comes before the first token; the job's cached tokens are known by then.
	open(buf []byte) []byte
	// token appends one token of a choice as an event of its own.
	token(buf []byte, choice int, word []byte) []byte
	// end appends what closes one choice.
	end(buf []byte, choice int) []byte
	// close appends what comes after the last choice.
	close(buf []byte) []byte
	// whole appends the answer that is not streamed.
	whole(buf []byte) []byte
}

// run sends a job through the engine and its answer to the client. A client that leaves takes the job with it.
func (s *Server) run(w http.ResponseWriter, r *http.Request, j *job, f form) error {
	if err := s.submit(j); err != nil {
		return err
	}
	defer s.abort(j)
	if j.stream {
		return s.runStream(w, r, j, f)
	}
	for !j.finished() {
		if err := s.wait(r.Context(), j); err != nil {
			return err
		}
	}
	writeBytes(w, http.StatusOK, f.whole(nil))
	return nil
}

// runStream sends the head at once and then every token as it comes; what came together is written together.
func (s *Server) runStream(w http.ResponseWriter, r *http.Request, j *job, f form) error {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return err
	}
	var buf, word []byte
	sent := make([]int, len(j.choices))
	opened, open := false, len(j.choices)
	for open > 0 {
		if err := s.wait(r.Context(), j); err != nil {
			return err
		}
		buf = buf[:0]
		for i, c := range j.choices {
			// done is read first: once it is set, produced is final.
			done, produced := c.done.Load(), int(c.produced.Load())
			if produced == 0 || sent[i] < 0 {
				continue
			}
			if !opened {
				buf, opened = f.open(buf), true
			}
			for ; sent[i] < produced; sent[i]++ {
				word = c.answer.word(word[:0], sent[i])
				buf = f.token(buf, i, word)
			}
			if done {
				buf = f.end(buf, i)
				sent[i] = -1
				open--
			}
		}
		if open == 0 {
			buf = f.close(buf)
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// event appends one server-sent event with a name.
func event(buf []byte, name, data string) []byte {
	buf = append(buf, "event: "...)
	buf = append(buf, name...)
	buf = append(buf, "\ndata: "...)
	buf = append(buf, data...)
	return append(buf, "\n\n"...)
}

// number appends a key and an integer of a JSON object.
func number(buf []byte, key string, n int) []byte {
	buf = append(buf, '"')
	buf = append(buf, key...)
	buf = append(buf, `":`...)
	return strconv.AppendInt(buf, int64(n), 10)
}

// quote makes a JSON string.
func quote(s string) string {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return `"?"` // not UTF-8
	}
	return string(out)
}
