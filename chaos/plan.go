package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"time"
)

// What the fleet of the suite looks like: who serves what. Faults are for the first six; who asks for calm is not to notice.
const (
	workersCount = 8
	alpha        = "alpha" // w1 to w4; long prompts only by w3 and w4, the pool long
	beta         = "beta"  // w5 and w6
	calm         = "calm"  // w7 and w8
)

// longTokens is from how many tokens of prompt on a request for alpha belongs to the pool long. The router estimates them; plans stay far from it.
const longTokens = 8000

var served = [workersCount][]string{{alpha}, {alpha}, {alpha}, {alpha}, {beta}, {beta}, {calm}, {calm}}

func workerName(i int) string { return fmt.Sprintf("w%d", i+1) }

// mayServe says whether the worker of that name may get the request.
func (r *request) mayServe(worker string) bool {
	var i int
	fmt.Sscanf(worker, "w%d", &i)
	if r.long {
		return i == 3 || i == 4
	}
	return i >= 1 && i <= workersCount && served[i-1][0] == r.want.model
}

// kind is what a client does.
type kind string

const (
	asks     kind = "asks"     // a request like any other
	leaves   kind = "leaves"   // goes away before the end of the answer
	dawdles  kind = "dawdles"  // reads a long answer slowly
	heavies  kind = "heavies"  // a long prompt, for the pool long
	pipes    kind = "pipes"    // several requests in one write
	packed   kind = "packed"   // a compressed body
	chunked  kind = "chunked"  // a body in chunks
	expects  kind = "expects"  // waits for 100 Continue
	ancient  kind = "ancient"  // HTTP/1.0
	badJSON  kind = "badjson"  // a body that is no JSON
	noModel  kind = "nomodel"  // a model that nobody serves
	tooLarge kind = "toolarge" // a body beyond the limit
	lists    kind = "lists"    // GET /v1/models and the like
	garbage  kind = "garbage"  // bytes that are no HTTP
	floods   kind = "floods"   // a head beyond the limit
	crawls   kind = "crawls"   // a head, or a body, that does not come to its end
	smuggles kind = "smuggles" // heads that two servers could read differently
	vanishes kind = "vanishes" // connects, says part of a request or nothing, and goes
)

// kinds are the shares of each, in parts of 1,000.
var kinds = []struct {
	kind  kind
	share int
}{
	{asks, 812}, {leaves, 50}, {dawdles, 4}, {heavies, 6}, {pipes, 20}, {packed, 10}, {chunked, 15}, {expects, 3}, {ancient, 5}, {badJSON, 15},
	{noModel, 10}, {tooLarge, 3}, {lists, 15}, {garbage, 8}, {floods, 3}, {crawls, 2}, {smuggles, 14}, {vanishes, 5},
}

// request is one step of a client, made of the seed and its number alone.
type request struct {
	id      int
	at      time.Duration // after the one before
	kind    kind
	want    want
	ask     ask
	long    bool
	body    []byte
	fresh   bool // on a connection of its own
	patient time.Duration
	variant int // of kinds with several ways
	batch   []*request
}

// idsEach is how many ids belong to each number: those of a batch, and those that no worker may ever see.
const idsEach = 8

// forbidden says that no worker may ever see the id: it was only ever sent within something else.
func forbidden(id int) bool { return id%idsEach == idsEach-1 }

// plan makes the request of a number. rate is requests a second.
func plan(seed uint64, number int, rate float64) *request {
	rng := rand.New(rand.NewPCG(seed, uint64(number)))
	r := &request{id: number * idsEach, at: time.Duration(rng.ExpFloat64() / rate * float64(time.Second)), variant: rng.IntN(1 << 20)}
	draw := rng.IntN(1000)
	for _, k := range kinds {
		if r.kind = k.kind; draw < k.share {
			break
		}
		draw -= k.share
	}
	r.compose(rng)
	if r.kind == pipes {
		for i := range 2 + rng.IntN(5) {
			b := &request{id: r.id + i, kind: asks}
			b.compose(rng)
			r.batch = append(r.batch, b)
		}
	}
	return r
}

// compose draws what is asked for.
func (r *request) compose(rng *rand.Rand) {
	w := want{api: chat, stream: rng.IntN(2) == 0, usage: rng.IntN(4) == 0, model: []string{alpha, alpha, alpha, beta, beta, calm, calm, calm}[rng.IntN(8)]}
	switch rng.IntN(20) {
	case 0, 1, 2:
		w.api = messages
	case 3, 4:
		w.api = completions
	case 5:
		w.api, w.stream = embeddings, false
	}
	a := ask{id: r.id, words: 1 + rng.IntN(8), first: 2000 + rng.IntN(8000), gap: 500 + rng.IntN(3000), pad: rng.IntN(20)}
	fill := rng.IntN(400)
	r.fresh, r.patient = rng.IntN(20) == 0, time.Duration(rng.IntN(40_000))*time.Microsecond
	switch r.kind {
	case leaves:
		w.stream = rng.IntN(4) > 0 && w.api != embeddings
		a.words, a.gap, r.fresh = 50+rng.IntN(100), 20_000, true
		r.patient = time.Duration(rng.IntN(300)) * time.Millisecond
	case dawdles:
		w.stream, w.api = true, chat
		a.words, a.gap, a.pad, r.fresh = 300, 100, 300, true
	case heavies:
		w.model, r.long = alpha, true
		fill = 6*4*longTokens + rng.IntN(300_000)
	case smuggles, crawls, vanishes, garbage, floods, ancient, packed, chunked, expects:
		w.model = []string{alpha, calm}[rng.IntN(2)]
		r.fresh = true
	case tooLarge:
		fill = bodyBytesMax + rng.IntN(1000)
		r.fresh = true
	case noModel:
		w.model = "nobody"
	}
	if !w.stream || w.api == messages || w.api == embeddings {
		w.usage = false
	}
	r.want, r.ask = w, a
	r.body = r.write(rng, fill)
	if r.kind == badJSON {
		r.body = spoiled(rng, r.body)
	}
}

// bodyBytesMax is the limit that the router of the suite is given.
const bodyBytesMax = 2 << 20

// write is the request's body. Some prompts begin alike, so that there are warm prefixes to be had.
func (r *request) write(rng *rand.Rand, fill int) []byte {
	shared := strings.Repeat(fmt.Sprintf("You are assistant number %d. ", rng.IntN(12)), 20+rng.IntN(40))
	filler := strings.Repeat(fmt.Sprintf("%08x ", rng.Uint32()), fill/9+1)
	r.ask.prompt = (len(shared) + len(filler)) / 4
	prompt := r.ask.String() + " " + filler
	w := r.want
	stream := fmt.Sprintf(`"stream":%t`, w.stream)
	if w.usage {
		stream += `,"stream_options":{"include_usage":true}`
	}
	switch w.api {
	case completions:
		return fmt.Appendf(nil, `{"model":%q,%s,"max_tokens":%d,"prompt":%q}`, w.model, stream, r.ask.words, shared+prompt)
	case messages:
		return fmt.Appendf(nil, `{"model":%q,%s,"max_tokens":%d,"system":%q,"messages":[{"role":"user","content":%q}]}`, w.model, stream, r.ask.words, shared, prompt)
	case embeddings:
		return fmt.Appendf(nil, `{"model":%q,"input":%q}`, w.model, prompt)
	}
	return fmt.Appendf(nil, `{"model":%q,%s,"max_tokens":%d,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`, w.model, stream, r.ask.words, shared, prompt)
}

// spoiled spoils a body so that it is no JSON object any more.
func spoiled(rng *rand.Rand, body []byte) []byte {
	switch rng.IntN(4) {
	case 0:
		return body[:len(body)-1-rng.IntN(len(body)/2)]
	case 1:
		return append([]byte("["), body...)
	case 2:
		return bytes.Replace(body, []byte(":"), []byte(";"), 1)
	}
	return append(body, '}')
}

// head is the request's head. extra are lines of it, each with its end.
func (r *request) head(length int, extra string) []byte {
	framing := fmt.Sprintf("Content-Length: %d\r\n", length)
	if length < 0 {
		framing = "Transfer-Encoding: chunked\r\n"
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: chaos\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s%s\r\n",
		paths[r.want.api], clientKey, framing, extra)
}

// clientKey is what clients send as their key; no worker may see it.
const clientKey = "sk-client-must-not-pass"

func sumLine(body []byte) string {
	return fmt.Sprintf("%s: %08x\r\n", wordsSum, crc32.ChecksumIEEE(body))
}

// bytes is the whole request, as most kinds send it.
func (r *request) bytes() []byte {
	return append(r.head(len(r.body), sumLine(r.body)), r.body...)
}

// inChunks is the body in chunks of uneven length.
func (r *request) inChunks() []byte {
	out := r.head(-1, sumLine(r.body))
	for rest, n := r.body, 1+r.variant%50; len(rest) > 0; n = n*2 + 1 {
		part := rest[:min(n, len(rest))]
		out = fmt.Appendf(out, "%x\r\n%s\r\n", len(part), part)
		rest = rest[len(part):]
	}
	return append(out, "0\r\n\r\n"...)
}

// compressed is the request with a packed body.
func (r *request) compressed() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(r.body)
	z.Close()
	return append(r.head(b.Len(), "Content-Encoding: gzip\r\n"+sumLine(b.Bytes())), b.Bytes()...)
}
