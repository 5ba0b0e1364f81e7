package sched

import (
	"fmt"
	"slices"
	"strings"
)

// Terms is a set of terms of warm-cost. What each is there for: docs/POLICY.md.
type Terms uint16

// The terms that can be left out, to measure what each is good for.
const (
	WaitPrice Terms = 1 << iota // a wait is priced by those that it delays too: else min(phi, 2.5) * Q is 0
	RideAlong                   // what rides along in decode steps delays nobody: else phi * v is phi * w
	Displaced                   // what is displaced from the cache has a price: else 0
	Age                         // near-ties go where what is displaced is oldest: else they do not look at it
	Room                        // slots and KV room are waited for: else no time
	OwnPrice                    // phi is at most 4*B + 1 of each worker: else the fleet's mean
	Batch                       // presence in the batch costs those already there: else 0
	Decode                      // the own decoding takes time: else 0
	Share                       // phi is more on a faster worker: else the same mean for all
	Toll                        // a fast worker's lure wears off where requests wait for room: else they pay the wait alone
)

var termNames = []string{"wait-price", "ride-along", "displaced", "age", "room", "own-price", "batch", "decode", "share", "toll"}

// TermNames returns the names of all terms, in the order of their constants.
func TermNames() []string { return slices.Clone(termNames) }

// ParseTerms reads names of terms.
func ParseTerms(names ...string) (t Terms, err error) {
	for _, name := range names {
		i := slices.Index(termNames, name)
		if i < 0 {
			return 0, fmt.Errorf("unknown term %q of %s; there are: %s", name, DefaultPolicy, strings.Join(termNames, ", "))
		}
		t |= 1 << i
	}
	return t, nil
}

// String is the terms' names, separated by commas; empty for none.
func (t Terms) String() string {
	var names []string
	for i, name := range termNames {
		if t.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func (t Terms) has(one Terms) bool { return t&one != 0 }

// leaveOut takes terms out of a candidate's and returns what its own decoding counts for in the total: c.decode itself is also how long
// the request stays, which is no term. Room, OwnPrice, Share, Toll and Age are left out where they are worked out.
func (t Terms) leaveOut(c *candidate) (decode float64) {
	if t.has(WaitPrice) {
		c.waitPrice = 0
	}
	if t.has(RideAlong) {
		c.delay = c.prefill
	}
	if t.has(Displaced) {
		c.displaced = 0
	}
	if t.has(Batch) {
		c.batch = 0
	}
	if t.has(Decode) {
		return 0
	}
	return c.decode
}
