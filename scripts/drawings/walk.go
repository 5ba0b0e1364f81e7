package main

import "fmt"

// cost is what a placement costs, in milliseconds.
type cost struct{ wait, prefill, delay, decode int }

func (s cost) total() int { return s.wait + s.prefill + s.delay + s.decode }

// bar draws a cost from left to right, a unit a tenth of the scale's milliseconds, and its sum behind it.
func (c *canvas) bar(x, y int, s cost, scale int, won bool) {
	at := x
	for _, part := range []struct {
		class string
		ms    int
	}{{"wait", s.wait}, {"prefill", s.prefill}, {"delay", s.delay}, {"decode", s.decode}} {
		if wide := part.ms * 10 / scale; wide > 0 {
			c.rect(at, y, wide, 14, part.class)
			at += wide
		}
	}
	class := "small"
	if won {
		class = "head"
	}
	c.text(at+8, y+12, class, fmt.Sprintf("%.2f s", float64(s.total())/1000))
}

// walk shows the three decisions about a request: its model, its pool, its worker.
func walk() string {
	c := &canvas{wide: 960, high: 470, title: "The walk of a request",
		say: "A request is read, its model is chosen, then its pool, then the worker whose cost in seconds is least; it waits where none has room."}
	c.box(20, 30, 150, 96, "box", "Request", "who asks, by its key", "the prompt's blocks", "its answer's length")
	c.box(220, 30, 190, 96, "box", "1  Model", "an alias, a split by weight,", "or the cheapest that can;", "most setups have one")
	c.box(460, 30, 190, 96, "box", "2  Pool", "the first rule that matches;", "spills where the wait", "would be too long")
	c.box(700, 30, 240, 96, "won", "3  Worker", "score each in seconds,", "this request's and those", "of the ones it disturbs")
	c.arrow(170, 78, 216, 78)
	c.arrow(410, 78, 456, 78)
	c.arrow(650, 78, 696, 78)
	c.arrow(820, 126, 820, 164)

	c.rect(20, 168, 920, 190, "box")
	c.text(36, 194, "head", "What going there would cost (seconds)")
	c.text(36, 212, "small", "prompt of 8,000 tokens on engines that prefill 20,000 a second; answer of 100 tokens")
	for i, row := range []struct {
		name, cached string
		cost         cost
		won          bool
	}{
		{"gpu-1", "7,600 cached, 3 prefills queued", cost{wait: 900, prefill: 20, delay: 60, decode: 740}, false},
		{"gpu-2", "7,000 cached, decodes for 2 others", cost{prefill: 50, delay: 100, decode: 690}, true},
		{"gpu-3", "nothing cached, idle", cost{prefill: 400, decode: 650}, false},
	} {
		y := 240 + i*32
		class := "text"
		if row.won {
			class = "head"
		}
		c.text(36, y+12, class, row.name)
		c.text(92, y+12, "small", row.cached)
		c.bar(330, y, row.cost, 40, row.won)
	}
	for _, part := range []struct {
		x            int
		class, words string
	}{
		{330, "wait", "waits for what is queued"}, {508, "prefill", "its own prefill"}, {618, "delay", "delays others"}, {726, "decode", "its answer, among those there"},
	} {
		c.rect(part.x, 338, 10, 10, part.class)
		c.text(part.x+15, 348, "small", part.words)
	}
	c.arrow(180, 358, 180, 392)
	c.box(20, 396, 430, 54, "off", "No worker has room", "it waits here, most urgent first, and is scored again when one has")
	c.arrow(820, 358, 820, 392)
	c.box(510, 396, 430, 54, "won", "gpu-2: the least", "sent, reserved there at once; what came of it corrects the prediction")
	return c.String()
}
