// Package kvpublish publishes the cache events of a simulated engine as vLLM does: one numbered message a scheduler step over a ZeroMQ PUB
// socket, and a ROUTER socket that replays the last ones.
//
//	p, err := kvpublish.New(kvpublish.Options{Events: "tcp://127.0.0.1:5557", Replay: "tcp://127.0.0.1:5558", BlockTokens: 16})
//	end := p.Begin("", tokens, keys) // a request whose blocks may be stored
//	p.Block(keys[0], true)
//	p.Step() // the message leaves
//	end()
package kvpublish

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// Options of a Publisher. Zero fields but Events are taken from DefaultOptions.
type Options struct {
	Events      string // where to publish, as tcp://127.0.0.1:5557
	Replay      string // where to answer questions for what was published; "" nowhere
	Topic       string // first frame of every message
	Rank        int    // data-parallel rank
	BlockTokens int
	StepsKept   int // messages that can be replayed
}

// DefaultOptions are vLLM's.
func DefaultOptions() Options { return Options{Topic: "kv", BlockTokens: 16, StepsKept: 10_000} }

// Publisher is one engine's events. Its methods may be called from any goroutine.
type Publisher struct {
	o      Options
	pub    *zmtp.Publisher
	router *zmtp.Router

	mu     sync.Mutex // guards the fields below; the publisher's own lock may be taken while it is held
	blocks map[prefix.Key]*block
	batch  []kvevent.Event
	seq    uint64
	kept   [][]byte // payloads of the last messages, the newest is number seq-1
}

// block is what a block that may be stored consists of, as long as a request has it.
type block struct {
	parent prefix.Key // 0: it begins a prompt
	tokens []uint32
	salt   string
	users  int
}

// New listens at both endpoints. Close must be called.
func New(o Options) (*Publisher, error) {
	d := DefaultOptions()
	if o.Topic == "" {
		o.Topic = d.Topic
	}
	if o.BlockTokens <= 0 {
		o.BlockTokens = d.BlockTokens
	}
	if o.StepsKept <= 0 {
		o.StepsKept = d.StepsKept
	}
	p := &Publisher{o: o, blocks: map[prefix.Key]*block{}}
	var err error
	if p.pub, err = zmtp.Publish(o.Events, zmtp.Options{}); err != nil {
		return nil, err
	}
	if o.Replay != "" {
		if p.router, err = zmtp.Route(o.Replay, zmtp.Options{}, p.answer); err != nil {
			p.pub.Close()
			return nil, err
		}
	}
	return p, nil
}

// Close ends all connections.
func (p *Publisher) Close() {
	p.pub.Close()
	if p.router != nil {
		p.router.Close()
	}
}

// Begin says what the blocks of a request are, which may be stored until end is called.
func (p *Publisher) Begin(salt string, tokens []uint32, keys []prefix.Key) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	parent := prefix.Key(0)
	for i, key := range keys {
		if (i+1)*p.o.BlockTokens > len(tokens) {
			keys = keys[:i]
			break
		}
		b := p.blocks[key]
		if b == nil {
			b = &block{parent: parent, tokens: tokens[i*p.o.BlockTokens : (i+1)*p.o.BlockTokens], salt: salt}
			p.blocks[key] = b
		}
		b.users++
		parent = key
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, key := range keys {
			if b := p.blocks[key]; b != nil {
				if b.users--; b.users == 0 {
					delete(p.blocks, key)
				}
			}
		}
	}
}

// Block says that a block became findable or was given up. Its key is its hash. It leaves with the next Step.
func (p *Publisher) Block(key prefix.Key, stored bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !stored {
		p.batch = append(p.batch, kvevent.Event{Kind: kvevent.Removed, Names: []uint64{uint64(key)}})
		return
	}
	b := p.blocks[key]
	if b == nil {
		return
	}
	if n := len(p.batch); n > 0 {
		if last := &p.batch[n-1]; last.Kind == kvevent.Stored && b.parent != 0 && last.Names[len(last.Names)-1] == uint64(b.parent) {
			last.Names, last.Tokens = append(last.Names, uint64(key)), append(last.Tokens, b.tokens...)
			return
		}
	}
	p.batch = append(p.batch, kvevent.Event{
		Kind: kvevent.Stored, Names: []uint64{uint64(key)}, Parent: uint64(b.parent), HasParent: b.parent != 0,
		Tokens: append([]uint32(nil), b.tokens...), BlockTokens: p.o.BlockTokens, Salt: b.salt,
	})
}

// Step sends what happened since the last one, if anything did.
func (p *Publisher) Step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.batch) == 0 {
		return
	}
	payload := kvevent.AppendBatch(nil, float64(time.Now().UnixNano())/1e9, p.o.Rank, p.batch)
	p.batch = p.batch[:0]
	p.pub.Send([]byte(p.o.Topic), binary.BigEndian.AppendUint64(nil, p.seq), payload)
	p.seq++
	if len(p.kept) == p.o.StepsKept {
		p.kept = append(p.kept[:0:0], p.kept[1+p.o.StepsKept/16:]...)
	}
	p.kept = append(p.kept, payload)
}

// answer replays from the number asked for, as far as that is kept, and marks the end.
func (p *Publisher) answer(message [][]byte, reply func(...[]byte) error) {
	if len(message) != 2 || len(message[1]) != 8 {
		return
	}
	from := binary.BigEndian.Uint64(message[1])
	p.mu.Lock()
	first := p.seq - uint64(len(p.kept))
	from = min(max(from, first), p.seq)
	payloads := append([][]byte(nil), p.kept[from-first:]...)
	p.mu.Unlock()
	for i, payload := range payloads {
		if reply(nil, []byte(p.o.Topic), binary.BigEndian.AppendUint64(nil, from+uint64(i)), payload) != nil {
			return
		}
	}
	_ = reply(nil, nil, binary.BigEndian.AppendUint64(nil, 1<<64-1), nil)
}

// Sent is how many messages left.
func (p *Publisher) Sent() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// Endpoints are where it listens, with the ports that were chosen.
func (p *Publisher) Endpoints() (events, replay string) {
	if p.router != nil {
		replay = p.router.Endpoint()
	}
	return p.pub.Endpoint(), replay
}

// ServeHTTP answers GET /kv_event_sources.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	events, replay := p.Endpoints()
	source := map[string]any{
		"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": events, "replay_endpoint": replay, "buffer_steps": p.o.StepsKept, "topic": p.o.Topic,
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"0": source})
}

// CheckEndpoint says what is wrong with an endpoint.
func CheckEndpoint(endpoint string) error {
	network, _, err := zmtp.Address(endpoint)
	if err == nil && network != "tcp" {
		return errors.New("only tcp:// is published on")
	}
	return err
}
