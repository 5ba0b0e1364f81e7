package proxy

import (
	"errors"
	"net/http"

	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
)

// Outlook is what would become of a request that came now.
type Outlook struct {
	gate.Outlook
	Facts    *facts.Facts // of the request; Status, Error and Refused are those of our own answer to it, zero when a worker would be asked
	Answers  int          // to be generated
	Only     string       // the one worker that can serve it
	TokenIDs bool         // its prompt is given in tokens
}

// Explain walks a request to where a worker would be chosen. Nothing is reserved, sent, learned or counted; engines may be asked for the
// prompt's tokens, and which of them holds what it refers to, as for any request. but is what is supposed to be otherwise.
func (p *Proxy) Explain(w http.ResponseWriter, r *http.Request, but gate.Otherwise) *Outlook {
	x := newExchange(p)
	x.start(w, r)
	defer x.share.Release()
	o := &Outlook{Facts: &x.facts}
	err := x.foresee(o, but)
	if x.taken != nil {
		x.taken.Close()
	}
	o.Answers, o.Only, o.TokenIDs = x.req.Answers*max(1, x.req.Prompts), x.want.Only, x.req.TokenIDs
	var f *failure
	if errors.As(err, &f) {
		x.facts.Status, x.facts.Error = f.status, intake.Clip(f.message)
	}
	return o
}

func (x *exchange) foresee(o *Outlook, but gate.Otherwise) (err error) {
	x.api, x.dialect = llmapi.Route(x.r.Method, x.r.URL.Path)
	x.kind, _ = intake.Way(x.r.URL.Path)
	for _, step := range []func() error{x.enter, x.read, x.urge, x.key} {
		if err := step(); err != nil {
			return err
		}
	}
	if err = x.p.desk.Would(x.facts.Started, &x.guest, x.named(), x.expected()); err == nil {
		o.Outlook, err = x.p.gate.Outlook(x.want, x.waiting(), but)
	}
	if err != nil {
		return x.placeFailure(err)
	}
	return nil
}
