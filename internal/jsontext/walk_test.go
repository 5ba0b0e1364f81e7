package jsontext

import "testing"

func TestACursorNamesMembersAndValuesInPlace(t *testing.T) {
	s := Scanner{B: []byte(` {"a" : [1, {"b":"x\n"}], "\u0063":null }`)}
	got := ""
	m := s.Object(s.Space(0), 0)
	for m.Next() {
		m.I = s.Value(m.Val, m.Depth)
		got += string(m.Key) + "=" + string(s.B[m.Val:m.I]) + ";"
	}
	if want := `a=[1, {"b":"x\n"}];c=null;`; got != want || m.I != len(s.B) {
		t.Errorf("%q up to byte %d, want %q", got, m.I, want)
	}
}

func TestPickTakesTheLastOfTheMembersThatAreWanted(t *testing.T) {
	s := Scanner{B: []byte(`{"a":1,"b":{"a":2},"a":"three","c":[]}`)}
	a, z := Absent, Absent
	if end := s.Pick(0, 0, Want("a", &a), Want("z", &z)); end != len(s.B) {
		t.Errorf("it ends at byte %d", end)
	}
	if got := string(s.Word(a).Of(s.B)); got != "three" || z.Found() || s.Word(z).Found() {
		t.Errorf("a is %q, z %v", got, z)
	}
	if end := s.Pick(5, 0); end != 6 {
		t.Errorf("what is no object is skipped up to byte %d", end)
	}
}

func TestAScannerSaysWhereAndWhyATextIsNone(t *testing.T) {
	f := func(text string, at int, what string) {
		t.Helper()
		s := Scanner{B: []byte(text)}
		if end := s.Value(0, 0); end >= 0 {
			end = s.UTF8()
			if end >= 0 {
				t.Errorf("%q passes", text)
			}
		}
		if s.At != at || s.What != what {
			t.Errorf("%q: byte %d, %s", text, s.At, s.What)
		}
	}
	f(`[1,2`, 4, unclosed)
	f(`{"a" 1}`, 5, "expected a colon")
	f("\"\xff\"", 1, "invalid UTF-8")
	f(`"\ud800"`, 1, "half of a surrogate pair")
}
