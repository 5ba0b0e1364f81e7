package jsontext

import (
	"strings"
	"testing"
)

// at finds the holes of a text in which they are marked: <scalar> is one, [scalar] one for a text.
func at(marked string) (text []byte, holes *Holes) {
	holes = new(Holes)
	start := 0
	for i := range len(marked) {
		switch c := marked[i]; c {
		case '<', '[':
			start = len(text)
		case '>', ']':
			holes.Add(start, len(text), c == ']')
		default:
			text = append(text, c)
		}
	}
	return text, holes
}

func TestATextFitsWhenNothingButTheScalarsInItsHolesDiffers(t *testing.T) {
	const like = `{"created":<17>,"choices":{"delta":["a"],"n":0}}`
	for _, c := range []struct {
		text string
		want bool
	}{
		{`{"created":17,"choices":{"delta":"a","n":0}}`, true},
		{`{"created":0,"choices":{"delta":"a, \"n\":1}} \\","n":0}}`, true},
		{`{"created":"soon","choices":{"delta":"ä\n","n":0}}`, true},
		{`{"created":17,"choices":{"delta":"","n":0}}`, false},
		{`{"created":17,"choices":{"delta":5,"n":0}}`, false},
		{`{"created":null,"choices":{"delta":"a","n":0}}`, false},
		{`{"created":017,"choices":{"delta":"a","n":0}}`, false},
		{`{"created":1.5,"choices":{"delta":"a","n":0}}`, false},
		{`{"created":17,"choices":{"delta":"a","n":0}} `, false},
		{`{"created":17,"choices":{"delta":"a","n":0}`, false},
		{`{"created":17,"choices":{"delta":"a","n":1}}`, false},
		{`{"created":17,"choices":{"delta":"a`, false},
		{`{"created":17,"choices":{"delta":"a\`, false},
		{`{"created":17,"choices":{"delta":"\x","n":0}}`, false},
		{`{"created":17,"choices":{"delta":"\u0061","n":0}}`, false},
		{"{\"created\":17,\"choices\":{\"delta\":\"\n\",\"n\":0}}", false},
		{`{"created":`, false},
		{``, false},
	} {
		var m Mold
		m.Set(at(like))
		if got := m.Fits([]byte(c.text)); got != c.want {
			t.Errorf("%q: %v", c.text, got)
		}
		if n := m.Begins([]byte(c.text + "\n\n")); (n == len(c.text)) != c.want && n != len(strings.TrimRight(c.text, " ")) {
			t.Errorf("%q: it begins with %d bytes", c.text, n)
		}
	}
}

func TestAMoldWithoutHolesWithTooManyOrOfALongTextFitsNothing(t *testing.T) {
	many, _ := at(strings.Repeat(`<1>,`, HolesMax+1))
	for _, like := range []string{`{}`, strings.Repeat(`<1>,`, HolesMax+1), `["a"]` + strings.Repeat(" ", MoldBytesMax)} {
		var m Mold
		m.Set(at(`<1>,`))
		m.Set(at(like))
		text, _ := at(like)
		if m.Fits(text) || m.Fits(many) {
			t.Errorf("%.40q fits", like)
		}
	}
	var m Mold
	m.Set(at(`<1>,`))
	if e := m.Emptied(); e.Fits([]byte(`1,`)) || !m.Fits([]byte(`2,`)) {
		t.Error("emptied or not")
	}
}
