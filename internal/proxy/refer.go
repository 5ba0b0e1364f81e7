package proxy

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/upstream"
)

const (
	conversationsPath = "/v1/conversations"
	ownerAskTimeout   = 2 * time.Second
	ownerAskMax       = 64 // workers asked for one unknown id
)

// reference is what a request says about something that one worker holds: a response made before, or a conversation.
type reference struct {
	id     string
	key    string // in owners
	path   string // a GET there tells whether a worker holds it
	param  string // the field of the body that names it; "" when the path does
	strict bool   // without its holder the request makes no sense
}

func responseReference(id, param string) reference {
	return reference{id: id, key: id, path: "/v1/responses/" + url.PathEscape(id), param: param, strict: true}
}

// conversationReference is not strict when a body names it: engines that keep no conversations ignore it, and then it is only a hint
// to stay where the cache is warm.
func conversationReference(id, param string) reference {
	return reference{id: id, key: conversationKey(id), path: conversationsPath + "/" + url.PathEscape(id), param: param, strict: param == ""}
}

func conversationKey(id string) string {
	if id == "" {
		return ""
	}
	return "conversation/" + id
}

// reference finds what the request refers to; ok is false for most, which stand alone.
func (x *exchange) reference() (ref reference, ok bool) {
	if id, named := llmapi.ResponseID(x.r.URL.Path); named {
		return responseReference(id, ""), true
	}
	if rest, named := strings.CutPrefix(x.r.URL.Path, conversationsPath+"/"); named {
		if id, _, _ := strings.Cut(rest, "/"); id != "" {
			return conversationReference(id, ""), true
		}
	}
	if id := x.req.PreviousResponse; id != "" {
		return responseReference(id, "previous_response_id"), true
	}
	if id := x.req.Conversation; id != "" && x.api == llmapi.Responses {
		return conversationReference(id, "conversation"), true
	}
	return reference{}, false
}

// ownerOnly binds a request that refers to an earlier response, or to a conversation, to the worker that holds it. One that nobody
// here made is looked up on the workers: after a restart of the router, when another replica made it, or when its maker left and
// came back.
func (x *exchange) ownerOnly() error {
	ref, ok := x.reference()
	if !ok {
		return nil
	}
	if ref.id == "." || ref.id == ".." { // escaping leaves them as they are, and a path with one of them is another path
		return badRequest(ref.param, "%q is no id", ref.id)
	}
	o, known := x.p.owners.Get(ref.key)
	if known && x.p.gate.Holds(o.ID, o.Incarnation) {
		x.want.Only = o.ID
		return nil
	}
	if now, found := x.p.askForOwner(x.ctx, ref, x.req.Model, x.in); found {
		x.p.owners.Put(ref.key, now)
		x.want.Only = now.ID
		return nil
	}
	switch {
	case !ref.strict: // the answer makes its worker the holder: it is looked up once
		return nil
	case known:
		return &failure{status: http.StatusNotFound, kind: llmapi.KindNotFound, param: ref.param, outcome: OutcomeClientError,
			message: ref.id + " was made by worker " + o.ID + ", which has left or restarted and no longer holds it; send the conversation anew"}
	case !x.req.HasModel && len(x.p.gate.Models()) > 1: // else some worker's own 404 says it best
		return &failure{status: http.StatusNotFound, kind: llmapi.KindNotFound, param: ref.param, outcome: OutcomeClientError,
			message: "no worker holds " + ref.id}
	}
	return nil
}

// askForOwner looks an id up on the workers of the model, all at once.
func (p *Proxy) askForOwner(ctx context.Context, ref reference, model string, client header.Fields) (gate.Owner, bool) {
	ctx, cancel := context.WithTimeout(ctx, ownerAskTimeout)
	defer cancel()
	ends := p.gate.Serving(model)
	if len(ends) > ownerAskMax {
		ends = ends[:ownerAskMax]
	}
	var wait sync.WaitGroup
	found := make(chan gate.Owner, len(ends))
	for _, e := range ends {
		wait.Go(func() {
			if p.holds(ctx, e, ref.path, client) {
				found <- gate.Owner{ID: e.Worker.ID, Incarnation: e.Worker.Incarnation}
				cancel()
			}
		})
	}
	wait.Wait()
	select {
	case o := <-found:
		return o, true
	default:
		return gate.Owner{}, false
	}
}

func (p *Proxy) holds(ctx context.Context, e *gate.Endpoint, path string, client header.Fields) bool {
	res, err := e.Client.Do(ctx, &upstream.Request{Method: http.MethodGet, Path: path, Header: intake.Credentials(e.Key, client)})
	if err != nil {
		return false
	}
	defer res.Body.Close()
	io.CopyN(io.Discard, res.Body, 1<<20)
	return res.Status == http.StatusOK
}

// makesConversation says whether the answer to the request names a new conversation.
func (x *exchange) makesConversation() bool {
	return x.r.Method == http.MethodPost && strings.TrimSuffix(x.r.URL.Path, "/") == conversationsPath
}

// own remembers who made a response or a conversation, for the requests that will refer to it.
func (x *exchange) own(id string) {
	w := x.try.Worker
	o := gate.Owner{ID: w.ID, Incarnation: w.Incarnation}
	switch {
	case x.api == llmapi.Responses:
		x.p.owners.Put(id, o)
		x.p.owners.Put(conversationKey(x.req.Conversation), o)
	case x.makesConversation():
		x.p.owners.Put(conversationKey(id), o)
	}
}
