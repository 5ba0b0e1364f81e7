package hot

import "github.com/warmpath/warmpath/internal/prefix"

// TokenKeys are the keys of a prompt by its own tokens, in whole blocks of one size.
type TokenKeys struct {
	BlockTokens int
	Keys        []prefix.Key
}

// Lead is where a prefix ends by its tokens: the key of the last whole block of them, which names all before it too.
type Lead struct {
	BlockTokens int
	Blocks      int
	Key         prefix.Key
}

// trail is what all requests that begin alike have in common by their tokens, in blocks of one size. Where a text of so many bytes ends among
// a prompt's tokens is known by no count of bytes: a template puts its own between, and words differ in how many they take. Two requests that
// go on from it in different ways tell. So some keys of the first one are kept, to half as much again as the prefix is estimated to have, and
// each further request takes off those that are not its own.
type trail struct {
	block, step int // tokens of a block, and how many blocks lie from one key to the next
	keys        []prefix.Key
	parted      bool // a request went on in another way within them
}

const (
	// trailSteps is how finely a prefix's end is known: to a block, or where it has more of them to such a part of it.
	trailSteps = 32
	// trailsMax bounds the sizes of blocks for which that is known of one prefix.
	trailsMax = 2
)

// follow narrows the trails to what a request has in common with those before.
func (e *entry) follow(q *Request) {
	for i := range q.Tokens {
		k := &q.Tokens[i]
		at := 0
		for at < len(e.trails) && e.trails[at].block != k.BlockTokens {
			at++
		}
		if at == trailsMax || k.BlockTokens <= 0 {
			continue
		}
		if at == len(e.trails) {
			e.trails = append(e.trails, trail{block: k.BlockTokens})
		}
		e.trails[at].narrow(k.Keys, e.Tokens)
	}
}

func (t *trail) narrow(keys []prefix.Key, tokens int) {
	common := 0
	for common < len(t.keys) && t.step*(common+1) <= len(keys) && t.keys[common] == keys[t.step*(common+1)-1] {
		common++
	}
	switch {
	case common == 0: // nothing is known yet, or prompts are made in another way now
		t.begin(keys, tokens)
	case common < len(t.keys):
		t.keys, t.parted = t.keys[:common], true
	}
}

func (t *trail) begin(keys []prefix.Key, tokens int) {
	blocks := tokens / t.block
	t.step, t.parted, t.keys = max(1, (blocks+trailSteps-1)/trailSteps), false, t.keys[:0]
	for at := t.step; at <= min(blocks+blocks/2, len(keys)); at += t.step {
		t.keys = append(t.keys, keys[at-1])
	}
}

// leads are the ends by tokens. As long as no request went on in another way the estimate is all that is known of where it is.
func (e *entry) leads() (all []Lead) {
	for _, t := range e.trails {
		n := len(t.keys)
		if !t.parted {
			n = min(n, e.Tokens/t.block/max(1, t.step))
		}
		if n > 0 {
			all = append(all, Lead{BlockTokens: t.block, Blocks: n * t.step, Key: t.keys[n-1]})
		}
	}
	return all
}
