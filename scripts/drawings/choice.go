package main

import "fmt"

// The example of choice: a prompt of which the warm worker holds all but a little.
const (
	promptTokens = 8000
	newTokens    = 400
	perSecond    = 20000 // prompt tokens an engine computes
)

// choice shows when a warm prefix is given up: the warm worker's cost rises with what is queued there, the cold one's does not.
func choice() string {
	const left, bottom, second = 90, 330, 500 // where the axes meet, and a second's length
	c := &canvas{wide: 960, high: 420, title: "Warm prefix against load",
		say: "The warm worker costs what is queued there and a short prefill, the cold one a whole prefill. Where the lines cross, the hit is given up."}
	warm, cold := float64(newTokens)/perSecond, float64(promptTokens)/perSecond
	up := func(s float64) int { return bottom - int(s*second) }
	at := func(s float64) int { return left + int(s*1000) }

	c.text(left, 24, "head", "What the prompt costs before its first token")
	c.text(left, 42, "small", fmt.Sprintf("%d tokens, of which the warm worker holds all but %d; %d computed a second", promptTokens, newTokens, perSecond))
	c.path("line", fmt.Sprintf("M%d %d V%d H%d", left, 60, bottom, left+810))
	for _, tick := range []float64{0, 0.2, 0.4, 0.6, 0.8} {
		if tick <= 0.5 {
			c.text(left-10, up(tick)+5, "small end", fmt.Sprintf("%.1f s", tick))
		}
		c.text(at(tick), bottom+20, "small mid", fmt.Sprintf("%.1f s", tick))
	}
	c.text(left+390, bottom+44, "mid", "prefill already queued on the warm worker")

	end := 0.5
	c.path("warm", fmt.Sprintf("M%d %d L%d %d", at(0), up(warm), at(end), up(warm+end)))
	c.path("cold", fmt.Sprintf("M%d %d H%d", at(0), up(cold), at(0.8)))
	c.text(at(end)+10, up(warm+end)+6, "head", "warm: the queue + 0.02 s")
	c.text(at(0.5)+10, up(cold)+22, "head", "cold and idle: 0.40 s, whatever the queue")
	cross := cold - warm
	c.path("line", fmt.Sprintf("M%d %d V%d", at(cross), up(cold), bottom))
	c.text(at(cross/2), bottom-14, "mid", "goes to the warm worker")
	c.text(at(0.59), bottom-14, "mid", "the hit is given up: “declined”")
	c.text(left, bottom+66, "small", "On a busy fleet a queue costs those who come later, too: each queued second counts up to 3.5 times, and the lines cross earlier.")
	c.text(left, bottom+82, "small", "The longer the match, the later they cross: it is worth a longer wait.")
	return c.String()
}
