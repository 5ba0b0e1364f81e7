package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/models"
)

// showCanary has many conversations ask twice for a name of which a twentieth goes to a new version.
func showCanary(ctx context.Context, p *proof) error {
	b, err := p.stand(ctx, models.Virtual{Name: "latest", Choose: "weight", Candidates: []models.Candidate{{Model: "v1", Weight: 95}, {Model: "v2", Weight: 5}}}, 0, 0)
	if err != nil {
		return err
	}
	defer b.close()
	var turns [2][]*modelAsk
	for i := range canaryConversations {
		for turn := range turns {
			begin := fmt.Sprintf("conversation %d", i)
			session := ""
			if i%2 == 0 {
				session = fmt.Sprint("session ", p.seed, i) // the others are told by how they begin
			}
			body := chatOf("latest", begin, 20, nil)
			if turn > 0 {
				body["messages"] = []any{message(begin, 20), map[string]any{"role": "assistant", "content": "yes"}, message("go on", 5)}
			}
			turns[turn] = append(turns[turn], &modelAsk{body: body, session: session})
		}
	}
	for _, all := range turns {
		if err := b.ask(ctx, all); err != nil {
			return err
		}
	}
	canary, moved, failed := 0, 0, 0
	for i, first := range turns[0] {
		second := turns[1][i]
		if first.status != http.StatusOK || second.status != http.StatusOK {
			failed++
		}
		if first.served == "v2" {
			canary++
		}
		if first.served != second.served {
			moved++
		}
	}
	share := float64(canary) / canaryConversations
	p.that(math.Abs(share-canaryShare) <= canaryOff && moved == 0 && failed == 0, "a canary of 5 %",
		fmt.Sprintf("%.2f %% of %d conversations (%.0f %% wanted, a point off at most), %d changed their model at the second turn, %d requests failed", 100*share, canaryConversations, 100*canaryShare, moved, failed),
		map[string]any{"share": share, "conversations": canaryConversations, "moved": moved, "failed": failed})
	return nil
}

// Of conversations that may stay where they are warm, or go where tokens are a fifth cheaper.
const (
	stayingConversations = 30
	stayingWarm          = 6000  // tokens of their prompts
	stayingLittle        = 50    // that a turn adds
	stayingMuch          = 90000 // that one adds for which leaving pays
)

// showStaying begins conversations while the cheaper model is away, then has it back.
func showStaying(ctx context.Context, p *proof) error {
	near := models.Candidate{Model: "near", Price: cost.Price{Input: 1, Cached: 0.1, Output: 1}}
	cheap := models.Candidate{Model: "cheap", Price: cost.Price{Input: 0.8, Cached: 0.08, Output: 0.8}}
	b, err := p.stand(ctx, models.Virtual{Name: "chat", Candidates: []models.Candidate{near, cheap}}, 0, 0)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.router.gate.Drain("sim-2", false); err != nil {
		return err
	}
	var begun, fresh, further, leaving []*modelAsk
	turn := func(i, added int, begin string) *modelAsk {
		session := fmt.Sprintf("%s conversation %d", begin, i)
		return &modelAsk{session: session, body: map[string]any{"model": "chat", "max_tokens": 4, "messages": []any{message(session, stayingWarm),
			map[string]any{"role": "assistant", "content": "yes"}, message("go on", added)}}}
	}
	for i := range stayingConversations {
		begun = append(begun, &modelAsk{session: fmt.Sprintf("old conversation %d", i), body: chatOf("chat", fmt.Sprintf("old conversation %d", i), stayingWarm, nil)})
		fresh = append(fresh, &modelAsk{session: fmt.Sprintf("new conversation %d", i), body: chatOf("chat", fmt.Sprintf("new conversation %d", i), stayingWarm, nil)})
		further = append(further, turn(i, stayingLittle, "old"))
	}
	for i := range stayingConversations / 10 {
		leaving = append(leaving, turn(i, stayingMuch, "old"))
	}
	for i, all := range [][]*modelAsk{begun, fresh, further, leaving} {
		if i == 1 { // the other one is there again
			if err := b.router.gate.Undrain("sim-2"); err != nil {
				return err
			}
		}
		if err := b.ask(ctx, all); err != nil {
			return err
		}
	}
	count := func(all []*modelAsk, model string) (n int) {
		for _, a := range all {
			if a.status == http.StatusOK && a.served == model {
				n++
			}
		}
		return n
	}
	stayed, new, left := count(further, "near"), count(fresh, "cheap"), count(leaving, "cheap")
	p.that(count(begun, "near") == len(begun) && stayed == len(further) && new == len(fresh) && left == len(leaving), "a conversation stays unless leaving pays",
		fmt.Sprintf("%d of %d stayed where %d tokens were warm though tokens were a fifth cheaper elsewhere; %d of %d new ones went there; with %d new tokens, which pay for the lost prefill, %d of %d left",
			stayed, len(further), stayingWarm, new, len(fresh), stayingMuch, left, len(leaving)),
		map[string]any{"stayed": stayed, "may_stay": len(further), "new_to_cheap": new, "left": left, "may_leave": len(leaving)})
	return nil
}

// showOverflow sends prompts that are longer than the router takes them to be: only the engine knows that they do not fit. Then it stops that engine.
func showOverflow(ctx context.Context, p *proof) error {
	b, err := p.stand(ctx, models.Virtual{Name: "chat", Choose: "order", Candidates: []models.Candidate{{Model: "short"}, {Model: "other"}, {Model: "long"}},
		Fallback: []models.Fallback{{Model: "long", On: []string{"context"}}, {Model: "other", On: []string{"down", "overloaded"}}}}, 4096, 4096, 131072)
	if err != nil {
		return err
	}
	defer b.close()
	var long, plain []*modelAsk
	for i := range modelsEach {
		messages := make([]any, 0, 2500) // of a letter each: what comes around them is more than their text
		for range cap(messages) {
			messages = append(messages, map[string]any{"role": "user", "content": "a"})
		}
		long = append(long, &modelAsk{session: fmt.Sprint("overflow ", i), body: map[string]any{"model": "chat", "max_tokens": 4, "messages": messages}})
		plain = append(plain, &modelAsk{session: fmt.Sprint("down ", i), body: chatOf("chat", fmt.Sprintf("question %d", i), 30, nil)})
	}
	if err := b.ask(ctx, long); err != nil {
		return err
	}
	b.engines[0].web.Close()
	if err := b.ask(ctx, plain); err != nil {
		return err
	}
	answered := func(all []*modelAsk, model string) (n int, odd string) {
		for _, a := range all {
			if a.status == http.StatusOK && a.served == model {
				n++
			} else if odd == "" {
				odd = strings.TrimSpace(fmt.Sprintf("; %d of %q %.200s", a.status, a.served, a.said))
			}
		}
		return n, odd
	}
	overflowed, odd := answered(long, "long")
	down, odder := answered(plain, "other")
	fell := 0
	for _, c := range b.router.choice.Counts() {
		if c.Reason == models.FellBack.String() {
			fell += int(c.Requests)
		}
	}
	p.that(overflowed == len(long) && down == len(plain) && fell >= 2, "fallback by the kind of the failure",
		fmt.Sprintf("%d of %d prompts that did not fit were answered by the model for that, %d of %d requests by the other one once the first was down; %d fell back, no client saw an error%s%s",
			overflowed, len(long), down, len(plain), fell, odd, odder), map[string]any{"overflowed": overflowed, "down": down, "fell_back": fell})
	return nil
}
