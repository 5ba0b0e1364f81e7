package prefix

import "testing"

func TestKeysOfTokensTellApartWhatACacheTellsApart(t *testing.T) {
	s := NewSeed([]byte("a"))
	tokens := make([]uint32, 16)
	salt := AppendExtra(nil, "salt")
	keys := map[Key]string{}
	note := func(key Key, what string) {
		if other, taken := keys[key]; taken {
			t.Errorf("%s has the key of %s", what, other)
		}
		keys[key] = what
	}
	plain := s.TokenRoot("m", "")
	for what, root := range map[string]Key{"model": plain, "other model": s.TokenRoot("n", ""), "adapter": s.TokenRoot("m", "a"), "bytes": s.Root([]byte("m"), nil)} {
		note(root, what)
		note(s.NextTokens(root, tokens, nil), what+", first block")
		note(s.NextTokens(root, tokens, salt), what+", salted")
		note(s.NextTokens(root, tokens, AppendExtraMedia(nil, "salt", 0)), what+", image")
		note(s.NextTokens(root, tokens, AppendExtraMedia(nil, "salt", -3)), what+", image that began before")
		note(s.NextTokens(root, tokens, AppendExtra(AppendExtra(nil, "sa"), "lt")), what+", two extras")
		note(s.NextTokens(root, tokens[:8], nil), what+", half a block")
		note(s.NextTokens(s.NextTokens(root, tokens, nil), tokens, nil), what+", second block")
	}
	for n := range 40 {
		if extra := AppendExtra(nil, string(make([]byte, n))); len(extra)%4 == 0 {
			t.Errorf("the extra key of %d bytes could be tokens", n)
		}
	}
}

func TestSixteenTokensAreHashedWithoutAllocating(t *testing.T) {
	s, tokens := NewSeed([]byte("a")), make([]uint32, 16)
	if n := testing.AllocsPerRun(100, func() { s.NextTokens(1, tokens, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
