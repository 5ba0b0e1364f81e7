package proxy

import (
	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/inflight"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/render"
)

// modelBytesMax bounds a model's name: a longer one is no engine's, and would be kept and shown by all who are told of the request.
const modelBytesMax = 1 << 10

// key makes the request's routing key: model, block keys, sizes, session, and the worker that must serve it, if one must.
func (x *exchange) key() error {
	if n := len(x.req.Model); n > modelBytesMax {
		return badRequest("model", "the model's name has %d bytes, the limit is %d", n, modelBytesMax)
	}
	x.keyed = x.p.now()
	x.want.Model, x.want.Tenant, x.want.MaxTokens, x.want.Streamed, x.want.Needs, x.want.Prompts, x.want.Answers = x.req.Model, x.guest.Tenant, x.req.MaxTokens, x.req.Stream, x.req.Needs, x.req.Prompts, x.req.Answers
	x.want.Generates = x.api != llmapi.Embeddings && x.api != llmapi.CountTokens && (x.api != llmapi.Other || x.kind.Generates)
	if err := x.ownerOnly(); err != nil {
		return err
	}
	if x.pick.Asked != "" || x.p.choice.Stands(x.req.Model) {
		if err := x.choose(); err != nil {
			return err
		}
	}
	if !x.req.HasModel && x.want.Only == "" {
		if err := x.onlyModel(); err != nil {
			return err
		}
	}
	x.chained()
	ask := render.Ask{Model: x.want.Model, API: x.api, Req: &x.req, Body: x.text}
	if find := x.p.hooks.Find; find != nil && len(x.chain.Keys) > 0 && find(x.ctx, ask, &x.known) {
		x.want.Known, x.want.PromptTokens, x.facts.Known, x.facts.TokensKnown = x.known.Known, len(x.known.IDs), x.known.Known, true
	} else if !x.req.TokenIDs {
		x.want.PromptTokens = x.p.gate.Estimate(x.want.Model, x.req.TextBytes)
	}
	x.want.SessionKey = choice.Session(x.hint(), x.chain)
	f := &x.facts
	f.API, f.Model, f.Tenant, f.Stream, f.Bytes, f.TextBytes = x.api, x.want.Model, x.want.Tenant, x.req.Stream, x.bodyBytes(), x.req.TextBytes
	f.PromptTokens, f.MaxTokens, f.Chain, f.Session = x.want.PromptTokens, x.req.MaxTokens, x.chain, x.want.SessionKey
	f.Excerpt = facts.Excerpt(&x.req, x.text, x.o.ExcerptBytes)
	x.entry.Know(inflight.About{API: f.API.String(), Model: f.Model, Tenant: f.Tenant, Class: f.Class, Stream: f.Stream, PromptTokens: f.PromptTokens})
	return nil
}

// chained cuts the prompt into blocks, under its model's name and apart from other tenants' where these share nothing.
func (x *exchange) chained() {
	if salt := x.o.Salt; salt != nil && x.scanned && x.req.TenantSalt == "" {
		x.req.TenantSalt = salt(x.guest.Tenant, x.req.CacheSalt)
		if x.packed { // it goes on in the clear: engines are to be told the salt
			x.packed, x.body, x.in = false, x.text, intake.Unpacked(x.in)
		}
	}
	if x.scanned && x.kind.Warms && x.api != llmapi.CountTokens && !x.req.Scored { // counting warms no cache, scoring reads none
		x.chain = x.p.keyer.Chain(&x.req, x.text, x.chain)
	} else {
		x.chain.Keys, x.chain.Ends, x.chain.Replies = x.chain.Keys[:0], x.chain.Ends[:0], x.chain.Replies[:0]
	}
	x.want.Chain, x.want.Bytes, x.want.PromptTokens = x.chain, x.req.TextBytes, x.req.TokenCount
}

// onlyModel lets a request without a model through when there is nothing to choose from; it is one for the only model then.
func (x *exchange) onlyModel() error {
	models := x.p.models(x.guest.MayUse)
	if len(models) == 1 {
		x.want.Model = models[0].ID
	}
	if len(models) < 2 {
		return nil
	}
	names := gate.Names(models, 20)
	if x.unnamed != nil {
		return x.unnamed(names)
	}
	return badRequest("model", "the request names no model and there are several: %s", names)
}

// hint is what the client calls the session; "" nothing.
func (x *exchange) hint() string {
	s := x.in.Get(headerSession)
	if s == "" && (x.o.SessionsByUser || x.req.Session != x.req.User) {
		s = x.req.Session
	}
	if s == "" || x.guest.Tenant == "" {
		return s
	}
	return x.guest.Tenant + "\x00" + s // tenants may call theirs alike
}
