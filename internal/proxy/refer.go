package proxy

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/refer"
)

// ownerOnly binds a request that refers to an earlier response, or to a conversation, to the worker that holds it. One that nobody
// here made is looked up on the workers: after a restart of the router, when another replica made it, or when its maker left and
// came back.
func (x *exchange) ownerOnly() error {
	ref, ok := refer.Find(x.r.URL.Path, &x.req, x.api)
	if !ok {
		return nil
	}
	if ref.ID == "." || ref.ID == ".." { // escaping leaves them as they are, and a path with one of them is another path
		return badRequest(ref.Param, "%q is no id", ref.ID)
	}
	o, known := x.p.owners.Get(ref.Key)
	if known && x.p.gate.Holds(o.ID, o.Incarnation) {
		x.want.Only = o.ID
		return nil
	}
	client := x.in
	if x.guest.Known {
		client = nil // its key is for us, and for no engine
	}
	if now, found := refer.Ask(x.ctx, x.p.gate, ref, x.p.choice.Served(x.req.Model), client); found {
		x.p.owners.Put(ref.Key, now)
		x.want.Only = now.ID
		return nil
	}
	switch {
	case !ref.Strict: // the answer makes its worker the holder: it is looked up once
		return nil
	case known:
		return &failure{status: http.StatusNotFound, kind: llmapi.KindNotFound, param: ref.Param, outcome: outcome.ClientError,
			message: ref.ID + " was made by worker " + o.ID + ", which has left or restarted and no longer holds it; send the conversation anew"}
	case !x.req.HasModel && len(x.p.gate.Models()) > 1: // else some worker's own 404 says it best
		return &failure{status: http.StatusNotFound, kind: llmapi.KindNotFound, param: ref.Param, outcome: outcome.ClientError,
			message: "no worker holds " + ref.ID}
	}
	return nil
}

// makesConversation says whether the answer to the request names a new conversation.
func (x *exchange) makesConversation() bool {
	return x.r.Method == http.MethodPost && strings.TrimSuffix(x.r.URL.Path, "/") == refer.ConversationsPath
}

// own remembers who made a response or a conversation, for the requests that will refer to it.
func (x *exchange) own(id string) {
	w := x.try.Worker
	o := gate.Owner{ID: w.ID, Incarnation: w.Incarnation}
	switch {
	case x.api == llmapi.Responses:
		x.p.owners.Put(id, o)
		x.p.owners.Put(refer.ConversationKey(x.req.Conversation), o)
	case x.makesConversation():
		x.p.owners.Put(refer.ConversationKey(id), o)
	}
}
