package sched

import "testing"

func TestExplore(t *testing.T) {
	for _, c := range []struct {
		n, shared int
		rate      float64
	}{{2, 8000, 30}, {4, 8000, 60}, {8, 8000, 110}, {2, 32000, 14}, {4, 32000, 26}, {8, 32000, 50}} {
		compare(t, "hot", c.n, hotPrefix(5, 1500, c.rate, c.shared))
	}
	compare(t, "chats light", 4, chats(5, 150, 2))
	compare(t, "chats", 4, chats(5, 400, 10))
	compare(t, "chats heavy", 4, chats(5, 600, 20))
}
