//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// tokenServer is a llama.cpp server beside what we read from the file that it loaded.
type tokenServer struct {
	url  string
	ours *modelfile.Model
}

func startTokens(t *testing.T, path string) *tokenServer {
	t.Helper()
	ours, err := modelfile.Load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	start(t, "llama-server", server, nil, "-m", path, "-a", "tokens", "--host", "127.0.0.1", "--port", port, "-dev", "none", "--offline", "--no-warmup",
		"-t", "1", "-tb", "1", "--no-ui", "-c", "512", "--parallel", "1", "--jinja")
	s := &tokenServer{"http://127.0.0.1:" + port, ours}
	eventually(t, path+" is loaded", startWait, func() bool { return get(s.url+"/health") != "" })
	return s
}

// post asks the server, and reads its answer into a value.
func (s *tokenServer) post(t *testing.T, path string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.Post(s.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	answer, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s answered %d %s %v to %.300s", path, reply.StatusCode, answer, err, text)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
}

func (s *tokenServer) tokens(t *testing.T, text string, o tokenizer.Options) []uint32 {
	t.Helper()
	var said struct{ Tokens []uint32 }
	s.post(t, "/tokenize", map[string]any{"content": text, "add_special": o.Wrap, "parse_special": !o.PlainSpecial}, &said)
	return said.Tokens
}

// compare holds every text against the server and counts differences. Without options special tokens are looked for and are not, with and
// without BOS.
func (s *tokenServer) compare(t *testing.T, texts []string, options ...tokenizer.Options) {
	t.Helper()
	wrong := 0
	for i, text := range texts {
		each := options
		if each == nil {
			each = []tokenizer.Options{{Wrap: i%2 == 0}, {Wrap: i%2 == 1, PlainSpecial: true}}
		}
		for _, o := range each {
			want, got := s.tokens(t, text, o), s.ours.Tokenizer.Encode(nil, text, o)
			if slices.Equal(got, want) {
				continue
			}
			if wrong++; wrong <= 10 {
				t.Errorf("%+v %q\nours  %v %q\nserver %v %q", o, text, got, s.pieces(got), want, s.pieces(want))
			}
		}
	}
	t.Logf("%d texts: %d differ", len(texts), wrong)
}

func (s *tokenServer) pieces(ids []uint32) (all []string) {
	for _, id := range ids {
		text, _ := s.ours.Tokenizer.Text(id)
		all = append(all, text)
	}
	return all
}

// nastyParts are what texts are made of: everything that a pattern or a normaliser asks about, and what looks like a special token.
var nastyParts = strings.Split(`a|B|s|re|ve|ll|the|The|Hello|world|camelCase|HTTPServer|é|É|ſ|ǅ|ʰ|ª|日本|ゟ|ァ|가|Привет|سلام|नमस्ते|ไทย|1|12|123|4567|½|Ⅷ|٣|𝟘|²|!|'|'s|'S|'RE|'ſ|'ll|'d|"|#|$|~|~~|^|`+"`"+
	`|<|>|=|+|\|/|//|-|_|.|,|...|!!|€|「|」|«|∑|°|😀|👩‍👩‍👧|🇫🇷|1️⃣|e`+"\u0301|\u0301|\u0323|\u200d|\u200b|\ufeff|\u00ad|\ufffd|\ufdd0|\ue000|\U000f0000|\U00010ffff|\U0001f3fd|\u1100\u1161\u11a8|"+
	"<|im_start|>|<|im_end|>|<tool>|<unk>|<s>|</s>|<0x0A>|<｜User｜>|▁|▁▁| | |  |   |\t|  \t|\n|\n|\r\n|\n\n|\r|\v|\f|\u00a0|\u3000|\u2028|\u0085|\x01|\x04|\x13|\x1c|\x7f|[PAD]|func main() {|https://a.b/c?d=e", "|")

// nasty makes texts of chance.
func nasty(seed uint64, n int) (texts []string) {
	random := rand.New(rand.NewPCG(seed, seed))
	parts := append(slices.Clone(nastyParts), "|", "<|im_start|>", "<|im_end|>", "<|x|>")
	texts = append(texts, "", "'", " ", "|")
	for len(texts) < n {
		var b strings.Builder
		for range 1 + random.IntN(24) {
			if random.IntN(6) > 0 {
				b.WriteString(parts[random.IntN(len(parts))])
				continue
			}
			top := []int{0x80, 0x3000, 0x10000, utf8.MaxRune + 1}[random.IntN(4)]
			if r := rune(random.IntN(top)); utf8.ValidRune(r) {
				b.WriteRune(r)
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

func TestLlamaServerAndTheReaderMakeTheSameTokens(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	t.Run("smollm2", func(t *testing.T) {
		s := startTokens(t, model)
		s.compare(t, nasty(seed, 2500))
		s.chats(t)
	})
	for _, pre := range []string{"llama-bpe", "dbrx", "glm4", "qwen2", "qwen35", "smollm", "gpt-2", "deepseek-v3", "gpt-4o", "tekken", "bailingmoe", "seed-coder", "falcon", "default"} {
		t.Run(pre, func(t *testing.T) {
			s := startTokens(t, pairsModel(t, pre, seed))
			s.compare(t, nasty(seed+1, 500))
		})
	}
	for _, prefix := range []bool{true, false} {
		t.Run(fmt.Sprintf("llama with space prefix %v", prefix), func(t *testing.T) {
			s := startTokens(t, scoresModel(t, seed, prefix))
			s.compare(t, nasty(seed+2, 800))
			s.chats(t)
		})
	}
}

// Every character there is, where it shows how patterns class it. What Unicode leaves without a class is asked about in part.
func TestLlamaServerAndTheReaderClassEveryCharacterAlike(t *testing.T) {
	const together = 64
	for _, pre := range []string{"qwen35", "deepseek-v3"} {
		t.Run(pre, func(t *testing.T) {
			s := startTokens(t, pairsModel(t, pre, 11))
			var texts []string
			for from := rune(0); from <= utf8.MaxRune; from += together {
				if from >= 0x34000 && from < 0xe0000 || from >= 0xe1000 && from%0x8000 != 0 {
					continue
				}
				var b strings.Builder
				for c := from; c < from+together; c++ {
					if utf8.ValidRune(c) {
						x := string(c)
						b.WriteString("~~" + x + "ab" + x + "12" + x + "  " + x + "!!" + x + x + "\n")
					}
				}
				texts = append(texts, b.String())
			}
			s.compare(t, texts, tokenizer.Options{PlainSpecial: true})
		})
	}
}

// said is a message of a chat.
type said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chats holds the prompts of conversations, and their tokens, against the server's.
func (s *tokenServer) chats(t *testing.T) {
	t.Helper()
	const seed, conversations = 5, 36
	texts := nasty(seed, 200)[4:]
	random := rand.New(rand.NewPCG(seed, seed))
	for n := range conversations {
		var messages []said
		if n%3 == 0 {
			messages = append(messages, said{"system", texts[random.IntN(len(texts))]})
		}
		for turn := range 1 + 2*(n%4) {
			messages = append(messages, said{[]string{"user", "assistant"}[turn%2], texts[random.IntN(len(texts))]})
		}
		body := map[string]any{"messages": messages}
		var answer struct{ Prompt string }
		s.post(t, "/apply-template", body, &answer)
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := s.ours.Template.Render(string(text), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		prompt, o := s.ours.Prompt(rendered)
		if prompt != answer.Prompt {
			t.Fatalf("conversation %d (seed %d):\nours   %q\nserver %q", n, seed, prompt, answer.Prompt)
		}
		if got, want := s.ours.Tokenizer.Encode(nil, prompt, o), s.tokens(t, answer.Prompt, tokenizer.Options{Wrap: true}); !slices.Equal(got, want) {
			t.Errorf("conversation %d (seed %d): ours %v, server %v", n, seed, got, want)
		}
	}
	t.Logf("%d conversations", conversations)
}
