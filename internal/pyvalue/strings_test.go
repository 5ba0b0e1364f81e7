package pyvalue

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestStringsAreReadAsGoReadsThem(t *testing.T) {
	const seed = 1
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	pieces := []string{`\n`, `\"`, `\\`, `\/`, `\t`, `\u00e9`, `\u0041`, `\ud83d\ude00`, "a", "é漢", " ", "eight by", strings.Repeat("x", 21), `\x`, `"`, `\u12`}
	wrong := len(pieces) - 3 // from here on they are seldom drawn
	for range 200_000 {
		text := `"`
		for range r.IntN(12) {
			i := r.IntN(wrong)
			if r.IntN(60) == 0 {
				i = wrong + r.IntN(3)
			}
			text += pieces[i]
		}
		text += `"`[:1-r.IntN(20)/19]
		var want string
		bad := json.Unmarshal([]byte(text), &want) != nil
		if got, err := ReadJSON(text); (err != nil) != bad || !bad && got != want {
			t.Fatalf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}
