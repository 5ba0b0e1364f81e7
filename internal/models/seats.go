package models

import "math"

// seat is where a conversation sits.
type seat struct {
	model  string
	tokens int // of its prompt there, which are warm as far as is known
}

// seats remember which model each conversation is on. Two generations bound them: once the younger one is half of what may be held, the
// older one is forgotten. A list in order of use was rejected, since it costs as much again for each conversation.
type seats struct {
	young, old map[uint64]seat
	max        int
}

func newSeats(most int) seats {
	if most <= 0 {
		most = 100_000
	}
	return seats{young: map[uint64]seat{}, max: max(most, 2)}
}

func (s *seats) of(key uint64) (seat, bool) {
	if at, ok := s.young[key]; ok {
		return at, true
	}
	at, ok := s.old[key]
	return at, ok
}

func (s *seats) take(key uint64, at seat) {
	if _, ok := s.young[key]; !ok && len(s.young) >= s.max/2 {
		s.old, s.young = s.young, make(map[uint64]seat, s.max/2)
	}
	s.young[key] = at
	delete(s.old, key)
}

// Inherit has conversations stay where they are under another chooser, which this one takes the place of. Its own bound holds from now on.
func (c *Chooser) Inherit(from *Chooser) {
	c.seats.young, c.seats.old = from.seats.young, from.seats.old
}

// Conversations is how many conversations' models are remembered.
func (c *Chooser) Conversations() int { return len(c.seats.young) + len(c.seats.old) }

// Remember notes that a request was sent to the model that was chosen.
func (c *Chooser) Remember(a Ask, choice Choice) {
	if v := c.virtuals[c.Means(a.Name)]; v != nil && a.Conversation != 0 {
		c.seats.take(mix(a.Conversation, v.id), seat{choice.Model, a.Work.PromptTokens})
	}
}

// hash is FNV-1a. It must be the same in every process, so that replicas split conversations alike.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// mix joins two numbers, every bit of them with every other (the finish of SplitMix64).
func mix(a, b uint64) uint64 {
	z := a ^ b*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// lot is what a candidate of that weight draws for a conversation, the least of which wins: -ln(u)/weight with u uniform in (0, 1). Each
// candidate wins its share, and when a weight or a candidate changes, only those conversations move that must (weighted rendezvous
// hashing after Thaler and Ravishankar 1998). A table of ranges was rejected: it moves others too.
func lot(conversation, virtual, candidate uint64, weight float64) float64 {
	u := (float64(mix(mix(conversation, virtual), candidate)>>11) + 0.5) / (1 << 53)
	return -math.Log(u) / weight
}
