package proxy

import (
	"hash/maphash"

	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/render"
)

// sessionSeed makes session keys the same for one run of the program and unlike those of the next.
var sessionSeed = maphash.MakeSeed()

// key makes the request's routing key: model, block keys, sizes, session, and the worker that must serve it, if one must.
func (x *exchange) key() error {
	x.facts.keyed = x.p.now()
	x.want.Model = x.req.Model
	if err := x.ownerOnly(); err != nil {
		return err
	}
	if !x.req.HasModel && x.want.Only == "" {
		if err := x.onlyModel(); err != nil {
			return err
		}
	}
	if x.scanned && x.kind.Warms && x.api != llmapi.CountTokens && !x.req.Scored { // counting warms no cache, scoring reads none
		x.chain = x.p.keyer.Chain(&x.req, x.text, x.chain)
	} else {
		x.chain.Keys, x.chain.Ends, x.chain.Replies = x.chain.Keys[:0], x.chain.Ends[:0], x.chain.Replies[:0]
	}
	x.want.Chain, x.want.Bytes = x.chain, x.req.TextBytes
	x.want.PromptTokens = x.req.TokenCount
	ask := render.Ask{Model: x.want.Model, API: x.api, Req: &x.req, Body: x.text}
	if find := x.p.hooks.Find; find != nil && len(x.chain.Keys) > 0 && find(x.ctx, ask, &x.known) {
		x.want.Known, x.want.PromptTokens, x.facts.TokensKnown = x.known.Known, len(x.known.IDs), true
	} else if !x.req.TokenIDs {
		x.want.PromptTokens = x.p.gate.Estimate(x.want.Model, x.req.TextBytes)
	}
	x.want.MaxTokens, x.want.Streamed = x.req.MaxTokens, x.req.Stream
	x.want.Generates = x.api != llmapi.Embeddings && x.api != llmapi.CountTokens && (x.api != llmapi.Other || x.kind.Generates)
	x.want.SessionKey = x.session()
	x.want.Tenant = x.guest.Tenant
	f := &x.facts
	f.API, f.Model, f.Tenant, f.Stream, f.Bytes, f.TextBytes = x.api, x.want.Model, x.want.Tenant, x.req.Stream, x.bodyBytes(), x.req.TextBytes
	f.PromptTokens, f.MaxTokens, f.Chain, f.Session = x.want.PromptTokens, x.req.MaxTokens, x.chain, x.want.SessionKey
	return nil
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

// session is the key that sticky policies hash: the client's own hint, else the head of the conversation.
func (x *exchange) session() uint64 {
	if s := x.in.Get(headerSession); s != "" {
		return maphash.String(sessionSeed, s)
	}
	if s := x.req.Session; s != "" && (x.p.o.SessionsByUser || s != x.req.User) {
		return maphash.String(sessionSeed, s)
	}
	if n := len(x.chain.Keys); n > 0 {
		return uint64(x.chain.Keys[firstTurn(x.chain, n)-1])
	}
	return 0
}

// firstTurn is the number of blocks before the first thing the model said: every later turn of the conversation repeats them.
func firstTurn(c prefix.Chain, n int) int {
	if len(c.Replies) > 0 {
		return max(1, int(c.Replies[0].First))
	}
	return n
}
