package refer

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatARequestRefersToIsFoundInItsPathOrItsBody(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		req  llmapi.Request
		want Reference
	}{
		"a response by its path":       {"/v1/responses/r1", llmapi.Request{}, Reference{"r1", "r1", "/v1/responses/r1", "", true}},
		"a conversation by its path":   {"/v1/conversations/c/items", llmapi.Request{}, Reference{"c", "conversation/c", "/v1/conversations/c", "", true}},
		"the response before":          {"/v1/responses", llmapi.Request{PreviousResponse: "r/2"}, Reference{"r/2", "r/2", "/v1/responses/r%2F2", "previous_response_id", true}},
		"a conversation that is named": {"/v1/responses", llmapi.Request{Conversation: "c"}, Reference{"c", "conversation/c", "/v1/conversations/c", "conversation", false}},
	} {
		if got, ok := Find(c.path, &c.req, llmapi.Responses); !ok || got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/conversations/", "/v1/conversations"} {
		if got, ok := Find(path, &llmapi.Request{Conversation: "c"}, llmapi.Chat); ok {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestTheWorkerThatHoldsItIsFoundAmongAll(t *testing.T) {
	x := prefix.New(prefix.Options{})
	f, book := fleet.New(fleet.Options{}), cost.NewBook(cost.DefaultOptions())
	g := gate.New(f, x, book, nil, nil, sched.New(f, x, book, nil, nil, sched.Options{}), upstream.DefaultOptions(), time.Now)
	defer g.Close()
	for _, id := range []string{"a", "b", "c"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id != "b" || r.URL.Path != "/v1/responses/r1" || r.Header.Get("Authorization") != "Bearer client" {
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		defer web.Close()
		if _, err := g.Add(gate.Worker{ID: id, URL: web.URL, Models: []string{"m"}}); err != nil {
			t.Fatal(err)
		}
	}
	client := header.Fields{{Name: "Authorization", Value: "Bearer client"}, {Name: "Cookie", Value: "x"}}
	if o, found := Ask(t.Context(), g, response("r1", ""), "m", client); !found || o.ID != "b" {
		t.Errorf("%+v, %v; b holds it", o, found)
	}
	if o, found := Ask(t.Context(), g, response("r2", ""), "m", client); found {
		t.Errorf("%+v holds what nobody made", o)
	}
}
