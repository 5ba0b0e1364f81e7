// Package refer knows what requests say about something that one worker holds, a response made before or a conversation, and asks workers
// which of them does.
//
//	ref, ok := refer.Find(path, &req, llmapi.Responses)
//	owner, found := refer.Ask(ctx, g, ref, model, clientFields)
package refer

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

// ConversationsPath is where conversations are made; what is below it is about one of them.
const ConversationsPath = "/v1/conversations"

const (
	askTimeout = 2 * time.Second
	askMax     = 64      // workers asked for one unknown id
	answerMax  = 1 << 20 // bytes of an answer that are read, to keep the connection
)

// Reference is what a request refers to.
type Reference struct {
	ID     string
	Key    string // in gate.Owners
	Path   string // a GET there tells whether a worker holds it
	Param  string // the field of the body that names it; "" when the path does
	Strict bool   // without its holder the request makes no sense
}

func response(id, param string) Reference {
	return Reference{ID: id, Key: id, Path: "/v1/responses/" + url.PathEscape(id), Param: param, Strict: true}
}

// conversation is not strict when a body names it: engines that keep no conversations ignore it, and then it is only a hint to stay where
// the cache is warm.
func conversation(id, param string) Reference {
	return Reference{ID: id, Key: ConversationKey(id), Path: ConversationsPath + "/" + url.PathEscape(id), Param: param, Strict: param == ""}
}

// ConversationKey is a conversation's in gate.Owners; "" for none.
func ConversationKey(id string) string {
	if id == "" {
		return ""
	}
	return "conversation/" + id
}

// Find finds what a request refers to; ok is false for most, which stand alone.
func Find(path string, req *llmapi.Request, api llmapi.API) (ref Reference, ok bool) {
	if id, named := llmapi.ResponseID(path); named {
		return response(id, ""), true
	}
	if rest, named := strings.CutPrefix(path, ConversationsPath+"/"); named {
		if id, _, _ := strings.Cut(rest, "/"); id != "" {
			return conversation(id, ""), true
		}
	}
	if id := req.PreviousResponse; id != "" {
		return response(id, "previous_response_id"), true
	}
	if id := req.Conversation; id != "" && api == llmapi.Responses {
		return conversation(id, "conversation"), true
	}
	return Reference{}, false
}

// Ask looks a reference up on the workers of the model, all at once. Workers without a key of their own get the client's credential.
func Ask(ctx context.Context, g *gate.Gate, ref Reference, model string, client header.Fields) (gate.Owner, bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends := g.Serving(model)
	if len(ends) > askMax {
		ends = ends[:askMax]
	}
	var wait sync.WaitGroup
	found := make(chan gate.Owner, len(ends))
	for _, e := range ends {
		wait.Go(func() {
			if holds(ctx, e, ref.Path, client) {
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

func holds(ctx context.Context, e *gate.Endpoint, path string, client header.Fields) bool {
	res, err := e.Client.Do(ctx, &upstream.Request{Method: http.MethodGet, Path: path, Header: intake.Credentials(e.Key, client)})
	if err != nil {
		return false
	}
	defer res.Body.Close()
	io.CopyN(io.Discard, res.Body, answerMax)
	return res.Status == http.StatusOK
}
