package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Modes of a worker's cache events; it answers well in all of them.
const (
	mute   mode = "mute"   // what happens is not told, though it is numbered
	babble mode = "babble" // what is told cannot be read
	hangup mode = "hangup" // who listens is cut off
)

var eventModes = []mode{mute, babble, hangup}

// publisher tells what a worker's cache holds as vLLM does: ZMTP 3.0, a PUB socket, messages of topic, number and msgpack. Its tokens are four bytes of
// text each.
type publisher struct {
	mu      sync.Mutex
	now     func() mode
	number  uint64
	held    map[uint64]bool
	order   []uint64
	listens map[net.Conn]bool
}

// Of the cache that is told of.
const (
	blockTokens = 16
	blocksMax   = 4000
)

// serve takes subscribers.
func (p *publisher) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go p.subscriber(c)
	}
}

// subscriber greets one, and passes over what it subscribes to: it gets everything.
func (p *publisher) subscriber(c net.Conn) {
	defer c.Close()
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	c.Write(greeting)
	if _, err := io.ReadFull(c, make([]byte, 64)); err != nil {
		return
	}
	c.Write(append([]byte{4, 25}, "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"...))
	p.mu.Lock()
	p.listens[c] = true
	p.mu.Unlock()
	io.Copy(io.Discard, c)
	p.mu.Lock()
	delete(p.listens, c)
	p.mu.Unlock()
}

// take enters a prompt into the cache and tells what that changes. It returns how many of its tokens were there.
func (p *publisher) take(tokens []uint32) (cached int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []byte
	n, parent, hash := 0, uint64(0), uint64(0)
	for at := 0; at+blockTokens <= len(tokens); at += blockTokens {
		parent, hash = hash, chained(hash, tokens[at:at+blockTokens])
		if p.held[hash] {
			if cached == at && at+blockTokens < len(tokens) { // an engine computes one token at least
				cached += blockTokens
			}
			continue
		}
		p.held[hash] = true
		p.order = append(p.order, hash)
		events = append(events, stored(hash, parent, at == 0, tokens[at:at+blockTokens])...)
		n++
	}
	for len(p.order) > blocksMax {
		oldest := p.order[0]
		p.order = p.order[1:]
		delete(p.held, oldest)
		events = append(packString(append(events, 0x92), "BlockRemoved"), packUint([]byte{0x91}, oldest)...)
		n++
	}
	if n > 0 {
		p.tell(events, n)
	}
	return cached
}

// tell sends one message of n events. p.mu is held.
func (p *publisher) tell(events []byte, n int) {
	number := binary.BigEndian.AppendUint64(nil, p.number)
	p.number++
	payload := append([]byte{0x93, 0xcb}, binary.BigEndian.AppendUint64(nil, math.Float64bits(float64(time.Now().UnixNano())/1e9))...)
	payload = append(append(payload, 0xdc, byte(n>>8), byte(n)), events...)
	payload = append(payload, 0xc0)
	switch p.now() {
	case mute:
		return
	case babble:
		payload = []byte("\xc1 nobody reads this")
	case hangup:
		for c := range p.listens {
			c.Close()
		}
		return
	}
	message := frame(frame(frame(nil, 1, nil), 1, number), 0, payload)
	for c := range p.listens {
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(message); err != nil {
			c.Close()
		}
	}
}

// frame appends a frame of ZMTP; more is 1 where others of its message follow.
func frame(b []byte, more byte, body []byte) []byte {
	if len(body) < 256 {
		b = append(b, more, byte(len(body)))
	} else {
		b = binary.BigEndian.AppendUint64(append(b, more|2), uint64(len(body)))
	}
	return append(b, body...)
}

func stored(hash, parent uint64, first bool, tokens []uint32) []byte {
	b := packString([]byte{0x96}, "BlockStored")
	b = packUint(append(b, 0x91), hash)
	if first {
		b = append(b, 0xc0)
	} else {
		b = packUint(b, parent)
	}
	b = append(b, 0xdc, 0, byte(len(tokens)))
	for _, t := range tokens {
		b = packUint(b, uint64(t))
	}
	return append(b, blockTokens, 0xc0)
}

func packString(b []byte, s string) []byte { return append(append(b, 0xa0|byte(len(s))), s...) }

func packUint(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(append(b, 0xcf), v) }

// chained is the hash of a block behind another one.
func chained(parent uint64, tokens []uint32) uint64 {
	h := fnv.New64a()
	binary.Write(h, binary.LittleEndian, parent)
	binary.Write(h, binary.LittleEndian, tokens)
	return h.Sum64()
}

// tokensOf are the tokens of a request's text, of those of the suite or of the router's own questions: four bytes each.
func tokensOf(body []byte) []uint32 {
	var in struct {
		Prompt   string
		Messages []struct {
			Role    string
			Content any
		}
	}
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	text := in.Prompt
	for _, m := range in.Messages {
		text += fmt.Sprintf("<%s>%v", m.Role, m.Content)
	}
	if len(in.Messages) > 0 {
		text += "<assistant>"
	}
	text += strings.Repeat(" ", (4-len(text)%4)%4)
	tokens := make([]uint32, 0, len(text)/4)
	for b := []byte(text); len(b) > 0; b = b[4:] {
		tokens = append(tokens, binary.LittleEndian.Uint32(b)&0x7fffffff)
	}
	return tokens
}

// tokenize answers the router's own questions, as vLLM's POST /tokenize.
func tokenize(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	tokens := tokensOf(body)
	var b bytes.Buffer
	json.NewEncoder(&b).Encode(map[string]any{"tokens": tokens, "count": len(tokens), "max_model_len": contextMax})
	w.Header().Set("Content-Type", "application/json")
	w.Write(b.Bytes())
}

// contextMax is the context that workers say they have, in tokens.
const contextMax = 2_000_000
