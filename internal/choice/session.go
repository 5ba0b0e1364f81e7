package choice

import (
	"cmp"
	"hash/fnv"
	"hash/maphash"

	"github.com/warmpath/warmpath/internal/prefix"
)

// sessionSeed makes session keys the same for one run of the program and unlike those of the next.
var sessionSeed = maphash.MakeSeed()

// Session is the key that sticky policies hash: the client's own hint, else the head of the conversation; 0 where there is neither.
func Session(hint string, c prefix.Chain) uint64 {
	if hint != "" {
		return maphash.String(sessionSeed, hint)
	}
	return head(c)
}

// conversation is what splits go by and what stays where it is: the client's own name for it, else how it begins. Replicas with the same
// secret tell it alike, which is why it is no number of this process alone.
func conversation(hint string, c prefix.Chain) uint64 {
	if hint == "" {
		return head(c)
	}
	h := fnv.New64a()
	h.Write([]byte(hint))
	return cmp.Or(h.Sum64(), 1)
}

// head is the conversation up to the first thing that the model said: every later turn repeats it.
func head(c prefix.Chain) uint64 {
	n := len(c.Keys)
	if n == 0 {
		return 0
	}
	if len(c.Replies) > 0 {
		n = max(1, int(c.Replies[0].First))
	}
	return uint64(c.Keys[n-1])
}
