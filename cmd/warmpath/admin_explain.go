package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/sched"
)

// postExplain is POST /explain: what would become of the request that is the body, with the headers that it comes with. Nothing is sent to a
// worker to be answered, reserved, learned or counted.
func (r *router) postExplain(w http.ResponseWriter, q *http.Request) {
	asked := q.URL.Query()
	for name := range asked {
		if name != "path" && name != "policy" && name != "without" {
			refuse(w, http.StatusBadRequest, "unknown query parameter "+name+"; there are path, policy and without")
			return
		}
	}
	in := *q
	in.URL = &url.URL{Path: asked.Get("path")}
	if in.URL.Path == "" {
		body, release, refused := r.guessable(w, q)
		defer release()
		if refused {
			return
		}
		in.URL.Path, in.Body, in.ContentLength = guessPath(body), io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	if policy := asked.Get("policy"); policy != "" && sched.Policies[policy] == nil {
		refuse(w, http.StatusBadRequest, "unknown policy "+policy+"; there are: "+strings.Join(sched.PolicyNames(), ", "))
		return
	}
	if _, passes := intake.Way(in.URL.Path); !passes {
		refuse(w, http.StatusBadRequest, "no such path on the data port: "+in.URL.Path+" (query parameter path)")
		return
	}
	if id := r.unknownWorker(asked["without"]); id != "" {
		refuse(w, http.StatusBadRequest, "no worker is called "+id+" (query parameter without); GET /state names them")
		return
	}
	o := r.proxy.Explain(w, &in, gate.Otherwise{Policy: asked.Get("policy"), Without: asked["without"]})
	w.Header().Del("WWW-Authenticate") // that is for the data port's clients
	e := explainOutlook(o)
	e.Prompt.How, e.Prompt.Why = r.howTokens(o)
	e.leftOut(asked["without"])
	answer(w, http.StatusOK, e)
}

// guessable takes in a body of which nobody has said what it is. It counts among all bodies, until release, and comes as fast as a client's must.
func (r *router) guessable(w http.ResponseWriter, q *http.Request) (body []byte, release func(), refused bool) {
	c := r.settings()
	bodies, _ := r.proxy.Held()
	share := &intake.Share{Of: bodies, BytesMax: r.bodiesMax(*c)}
	in := &intake.Upload{ReadCloser: q.Body, Writer: w, Limit: c.Timeouts.Client, Memory: share, Context: q.Context()}
	body, err := io.ReadAll(http.MaxBytesReader(w, in, int64(c.BodyBytesMax)))
	switch {
	case intake.NoRoom(err):
		refuse(w, http.StatusServiceUnavailable, err.Error())
	case errors.As(err, new(*http.MaxBytesError)):
		refuse(w, http.StatusRequestEntityTooLarge, "the body cannot be read whole: "+err.Error()+" (setting body_bytes_max)")
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body cannot be read whole: "+err.Error())
	}
	return body, share.Release, err != nil
}

// unknownWorker is the first of these ids that no worker has; "" where all are known.
func (r *router) unknownWorker(ids []string) (unknown string) {
	r.gate.View(func(v gate.View) {
		for _, id := range ids {
			if !slices.ContainsFunc(v.Workers, func(w *fleet.Worker) bool { return w.ID == id }) {
				unknown = id
				return
			}
		}
	})
	return unknown
}

// guessPath tells an API by what a body has that no other has; a chat, where nothing tells.
func guessPath(body []byte) string {
	var has map[string]json.RawMessage
	if json.Unmarshal(body, &has) != nil {
		return pathOf["chat"]
	}
	if isPlainList(has["input"]) {
		return pathOf["embeddings"]
	}
	for _, mark := range []struct{ field, api string }{
		{"system", "messages"}, {"stop_sequences", "messages"}, {"messages", "chat"}, {"prompt", "completions"},
		{"documents", "rerank"}, {"text_1", "score"},
		{"dimensions", "embeddings"}, {"encoding_format", "embeddings"}, {"input", "responses"}, {"previous_response_id", "responses"},
	} {
		if _, ok := has[mark.field]; ok {
			return pathOf[mark.api]
		}
	}
	return pathOf["chat"]
}

// isPlainList tells what embeddings take, a list of texts or tokens, from the items of a response.
func isPlainList(input json.RawMessage) bool {
	var items []json.RawMessage
	return json.Unmarshal(input, &items) == nil && len(items) > 0 && items[0][0] != '{'
}

// pathOf are the paths of the APIs that --api names.
var pathOf = map[string]string{
	"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses", "messages": "/v1/messages",
	"embeddings": "/v1/embeddings", "rerank": "/v1/rerank", "score": "/v1/score",
}

// howTokens says how a prompt's tokens are known, and why no better.
func (r *router) howTokens(o *proxy.Outlook) (how, why string) {
	var of render.State
	for _, s := range r.exact.render.States() {
		if s.Model == o.Facts.Model {
			of = s
		}
	}
	switch {
	case o.TokenIDs:
		return tokensGiven, ""
	case o.Facts.TokensKnown && of.Mode == render.EngineSide:
		return tokensTold, of.Why
	case o.Facts.TokensKnown:
		return tokensExact, ""
	}
	return tokensEstimated, of.Why
}

// How a prompt's tokens are known.
const (
	tokensGiven     = "given"     // the request has them
	tokensExact     = "exact"     // by the model's own files, here
	tokensTold      = "engine"    // an engine told them
	tokensEstimated = "estimated" // of the bytes of the text
)
