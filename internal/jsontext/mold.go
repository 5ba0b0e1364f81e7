package jsontext

// HolesMax bounds the holes of a mold, and MoldBytesMax its text.
const (
	HolesMax     = 8
	MoldBytesMax = 1 << 10
)

// Holes are where scalars stand in a text, in their order: numbers and strings, the quotes included.
type Holes struct {
	at    [HolesMax]hole
	n     int // more than there is room for are counted only
	lead  int // the first that must be a string
	Texts int // how many must be strings, and not empty ones
}

type hole struct {
	start, end int
	text       bool
}

// Add notes one behind those before.
func (h *Holes) Add(start, end int, text bool) {
	if h.n < HolesMax {
		h.at[h.n] = hole{start, end, text}
	}
	if text {
		if h.Texts == 0 {
			h.lead = h.n
		}
		h.Texts++
	}
	h.n++
}

// Mold is a text with holes. Texts that differ from it in the scalars that stand there only fit it. The events of a stream are like
// that: one token follows another in the same wrapping. To compare costs a tenth of reading, and never errs: whatever it is not sure
// of does not fit, and is read. The zero value fits nothing.
type Mold struct {
	text  []byte
	holes Holes
}

// Set makes m the mold of text, which is copied. With too many holes, or a long text, m fits nothing.
func (m *Mold) Set(text []byte, holes *Holes) {
	m.holes.n = 0
	if holes.n <= HolesMax && len(text) <= MoldBytesMax {
		m.text, m.holes = append(m.text[:0], text...), *holes
	}
}

// Emptied is a mold that fits nothing, with the memory of m.
func (m *Mold) Emptied() Mold { return Mold{text: m.text} }

// Fits tells whether text is that of the mold with scalars in its holes.
func (m *Mold) Fits(text []byte) bool {
	n := m.Begins(text)
	return n > 0 && n == len(text)
}

// Begins is the length of a text that fits and that b begins with, 0 when there is none. Line ends are in it only where the mold has
// them.
func (m *Mold) Begins(b []byte) int {
	if m.holes.n == 0 {
		return 0
	}
	i, from, k := 0, 0, 0
	// Most often nothing changes before the text, which is then one comparison.
	if lead := m.holes.at[m.holes.lead].start; m.holes.Texts > 0 && len(b) > lead && string(b[:lead]) == string(m.text[:lead]) {
		i, from, k = lead, lead, m.holes.lead
	}
	for ; k < m.holes.n; k++ {
		h := &m.holes.at[k]
		next := i + h.start - from
		if len(b) <= next || string(b[i:next]) != string(m.text[from:h.start]) {
			return 0
		}
		end := scalar(b[next:])
		if end == 0 || h.text && (b[next] != '"' || end == 2) {
			return 0
		}
		i, from = next+end, h.end
	}
	if rest := m.text[from:]; len(b) >= i+len(rest) && string(b[i:i+len(rest)]) == string(rest) {
		return i + len(rest)
	}
	return 0
}

// scalar is the length of the string or the whole number that b begins with; 0 for whatever else, escapes by number included.
func scalar(b []byte) int {
	switch c := b[0]; {
	case c == '"':
		return str(b)
	case c >= '1' && c <= '9':
		i := 1
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i
	case c == '0' && (len(b) == 1 || b[1] < '0' || b[1] > '9'):
		return 1
	}
	return 0
}

func str(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c == '\\':
			if i++; i == len(b) {
				return 0
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return 0
			}
		}
	}
	return 0
}
