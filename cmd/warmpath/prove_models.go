package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/models"
)

const (
	modelsTimeScale = 200 // of the engines: what is shown is who answers, not how fast
	modelsAtOnce    = 8   // requests
	modelsEach      = 40  // requests of a kind
	// canaryConversations ask twice each. Of so many a share of 5 % is off by a third of canaryOff by chance.
	canaryConversations = 5000
	canaryShare         = 0.05
	canaryOff           = 0.01
)

// proveModels shows what names are held to that stand for several models, over real sockets.
func proveModels(ctx context.Context, p *proof) error {
	for _, show := range []func(context.Context, *proof) error{showCheapest, showCanary, showStaying, showOverflow} {
		if err := show(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// behind is the router before an engine for each model, and one name that stands for them all.
type behind struct {
	*embeddedFleet
	client proveClient
}

// stand starts an engine for each candidate, with that context, 0 for the usual one.
func (p *proof) stand(ctx context.Context, v models.Virtual, contexts ...int) (*behind, error) {
	var each []engine.Options
	for i, c := range v.Candidates {
		each = append(each, engine.Options{Profile: cost.Profiles["h100-8b"], Model: c.Model, TimeScale: modelsTimeScale, ContextMax: contexts[i], Seed: p.seed})
	}
	f, err := startFleet(ctx, each, "", p.err, func(c *config.Config, _ string) { c.Models = []models.Virtual{v} })
	if err != nil {
		return nil, err
	}
	return &behind{f, newProveClient()}, nil
}

// modelAsk is one request to the name, and what came of it.
type modelAsk struct {
	body    map[string]any
	session string
	tier    string

	status int
	served string // by the header; by the body's own word, where the two differ, both
	said   string // of an error
}

// chatOf is a body with one user message of about so many tokens; more are further fields.
func chatOf(name, begin string, tokens int, more map[string]any) map[string]any {
	body := map[string]any{"model": name, "max_tokens": 4, "messages": []any{message(begin, tokens)}}
	for key, value := range more {
		body[key] = value
	}
	return body
}

func message(begin string, tokens int) map[string]any {
	return map[string]any{"role": "user", "content": begin + strings.Repeat(" and", max(0, tokens-len(begin)/4))}
}

// ask sends all of them, several at one time, and notes what came.
func (b *behind) ask(ctx context.Context, all []*modelAsk) error {
	var wait sync.WaitGroup
	errs := make(chan error, modelsAtOnce)
	next := make(chan *modelAsk)
	for range modelsAtOnce {
		wait.Go(func() {
			for a := range next {
				if err := b.one(ctx, a); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for _, a := range all {
		next <- a
	}
	close(next)
	wait.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (b *behind) one(ctx context.Context, a *modelAsk) error {
	raw, err := json.Marshal(a.body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.router.DataURL()+"/v1/chat/completions", strings.NewReader(string(raw)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Session-Id", a.session)
	request.Header.Set(choice.HeaderTier, a.tier)
	reply, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	if err != nil {
		return err
	}
	var said struct{ Model string }
	if a.status, a.served = reply.StatusCode, reply.Header.Get("X-Warmpath-Model"); a.status != http.StatusOK {
		a.said = string(text)
		return nil
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	if said.Model != a.served {
		a.served += " but " + said.Model
	}
	return nil
}

// kind is what requests need, and who is then the cheapest that can.
type kind struct {
	name string
	more map[string]any
	size int // of the prompt, in tokens
	tier string
	want string // "": nobody can
}

// showCheapest asks for all that a candidate may be unable to do, and for prompts around their contexts.
func showCheapest(ctx context.Context, p *proof) error {
	price := func(input, output float64) cost.Price { return cost.Price{Input: input, Output: output} }
	b, err := p.stand(ctx, models.Virtual{Name: "chat", Candidates: []models.Candidate{
		{Model: "tiny", Can: []string{"text"}, Tier: 1, Price: price(0.1, 0.3)}, {Model: "small", Can: []string{"tools", "json"}, Tier: 1, Price: price(0.5, 1.5)},
		{Model: "large", Can: []string{"tools", "json", "reasoning"}, Tier: 2, Price: price(3, 9)}, {Model: "huge", Tier: 3, Price: price(10, 30)},
	}}, 4096, 16384, 65536, 131072)
	if err != nil {
		return err
	}
	defer b.close()
	tool := map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "f", "parameters": map[string]any{"type": "object"}}}}}
	kinds := []kind{
		{name: "plain", size: 200, want: "tiny"}, {name: "with tools", more: tool, size: 200, want: "small"},
		{name: "held to JSON", more: map[string]any{"response_format": map[string]any{"type": "json_object"}}, size: 200, want: "small"},
		{name: "reasoning", more: map[string]any{"reasoning_effort": "high"}, size: 200, want: "large"}, {name: "of tier 2", size: 200, tier: "2", want: "large"},
		{name: "of tier 3", size: 200, tier: "3", want: "huge"}, {name: "of 3,000 tokens", size: 3000, want: "tiny"}, {name: "of 6,000 tokens", size: 6000, want: "small"},
		{name: "of 24,000 tokens", size: 24000, want: "large"}, {name: "of 24,000 tokens with tools", more: tool, size: 24000, want: "large"},
		{name: "of 90,000 tokens", size: 90000, want: "huge"}, {name: "of 150,000 tokens", size: 150000},
	}
	right, total, figures, detail := 0, 0, map[string]any{}, []string{}
	for _, k := range kinds {
		var all []*modelAsk
		for i := range max(4, modelsEach*200/max(k.size, 200)) {
			all = append(all, &modelAsk{body: chatOf("chat", fmt.Sprintf("%s, number %d:", k.name, i), k.size, k.more), session: fmt.Sprint(k.name, i), tier: k.tier})
		}
		if err := b.ask(ctx, all); err != nil {
			return err
		}
		served := map[string]int{}
		for _, a := range all {
			total++
			if a.served == k.want && (k.want == "") == (a.status == http.StatusBadRequest && strings.Contains(a.said, "its context has ")) {
				right++
			}
			served[a.served+refusedWord(a.status)]++
		}
		figures[k.name] = served
		detail = append(detail, fmt.Sprintf("%-28s wants %-6s got %v", k.name, wantWord(k.want), served))
	}
	p.that(right == total, "the cheapest model that can", fmt.Sprintf("%d of %d requests of %d kinds went to the cheapest of 4 models that can do what they need and has the context; what fits none was refused with the reason",
		right, total, len(kinds)), figures, detail...)
	return nil
}

func refusedWord(status int) string {
	if status == http.StatusOK {
		return ""
	}
	return fmt.Sprintf("%d", status)
}

func wantWord(model string) string {
	if model == "" {
		return "400"
	}
	return model
}
