package template

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// One long conversation with each of the sample's templates: reading the body, and writing the prompt.
func BenchmarkRender(b *testing.B) {
	file, err := os.ReadFile("../jinja/testdata/sample.json")
	if err != nil {
		b.Fatal(err)
	}
	var sample struct{ Templates map[string]string }
	if err := json.Unmarshal(file, &sample); err != nil {
		b.Fatal(err)
	}
	for _, turns := range []int{1, 200} {
		var messages []string
		for i := range 2 * turns {
			role := []string{"user", "assistant"}[i%2]
			messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, role, strings.Repeat(fmt.Sprintf("Turn %d says func f(x int) { return x+%d }\n", i, i), 24)))
		}
		body := `{"model":"m","messages":[` + strings.Join(messages[:len(messages)-1], ",") + `]}`
		for name, source := range sample.Templates {
			t, err := Load(Files{Chat: source, Special: map[string]string{"bos_token": "<s>", "eos_token": "</s>"}}, Auto)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%dKB", name, len(body)>>10), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := t.Render(body, time.Time{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
