package main

import (
	"fmt"
	"html"
	"strings"
)

// canvas gathers the shapes of a drawing. Lengths are in its own units, of which the page shows one as a pixel or less.
type canvas struct {
	wide, high int
	title, say string
	shapes     strings.Builder
}

// The classes that shapes and words are drawn by; dark is what browsers with a dark page take in their place.
const style = `<style>
text{font:14px system-ui,sans-serif;fill:#1f2328}
.small{font-size:12px;fill:#59636e}
.head{font-weight:600}
.mid{text-anchor:middle}
.end{text-anchor:end}
.back{fill:#ffffff}
.box{fill:#f6f8fa;stroke:#818b98}
.won{fill:#dafbe1;stroke:#1a7f37}
.off{fill:#f6f8fa;stroke:#818b98;stroke-dasharray:4 3}
.line{stroke:#59636e;fill:none;stroke-width:1.5}
.tip{fill:#59636e}
.wait{fill:#cf222e}
.prefill{fill:#0969da}
.delay{fill:#bf8700}
.decode{fill:#8c959f}
.warm{fill:none;stroke:#cf222e;stroke-width:2.5}
.cold{fill:none;stroke:#0969da;stroke-width:2.5}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}
.small{fill:#9198a1}
.back{fill:#0d1117}
.box,.off{fill:#151b23;stroke:#656c76}
.won{fill:#12261e;stroke:#3fb950}
.line{stroke:#9198a1}
.tip{fill:#9198a1}
.wait{fill:#f85149}
.prefill{fill:#4493f8}
.delay{fill:#d29922}
.decode{fill:#656c76}
.warm{stroke:#f85149}
.cold{stroke:#4493f8}
}
</style>
`

func (c *canvas) text(x, y int, class, words string) {
	fmt.Fprintf(&c.shapes, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(words))
}

func (c *canvas) rect(x, y, wide, high int, class string) {
	fmt.Fprintf(&c.shapes, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" class=\"%s\"/>\n", x, y, wide, high, class)
}

// box is a rectangle with a heading and lines of small print under it.
func (c *canvas) box(x, y, wide, high int, class, head string, lines ...string) {
	c.rect(x, y, wide, high, class)
	c.text(x+12, y+22, "head", head)
	for i, line := range lines {
		c.text(x+12, y+42+i*17, "small", line)
	}
}

// arrow leads from one point to another, along a straight line.
func (c *canvas) arrow(x1, y1, x2, y2 int) {
	fmt.Fprintf(&c.shapes, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"line\" marker-end=\"url(#tip)\"/>\n", x1, y1, x2, y2)
}

func (c *canvas) path(class, points string) {
	fmt.Fprintf(&c.shapes, "<path d=\"%s\" class=\"%s\"/>\n", points, class)
}

func (c *canvas) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d">
<title id="t">%s</title>
<desc id="d">%s</desc>
%s<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" class="tip"/></marker></defs>
<rect width="%d" height="%d" class="back"/>
%s</svg>
`, c.wide, c.high, html.EscapeString(c.title), html.EscapeString(c.say), style, c.wide, c.high, c.shapes.String())
}
