package modelfile

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/template"
	"github.com/warmpath/warmpath/internal/tokenizer"
	"github.com/warmpath/warmpath/internal/words"
)

// What llama.cpp makes of the metadata: its src/llama-vocab.cpp, which reads a file's types of tokens, then corrects them by their names.

// The types of tokens in tokenizer.ggml.token_type.
const (
	typeNormal  = 1
	typeUnknown = 2
	typeControl = 3
	typeUser    = 4
	typeUnused  = 5
	typeByte    = 6
)

// cutting is how llama.cpp cuts text for a value of tokenizer.ggml.pre.
type cutting struct {
	split        []string
	ignoreMerges bool
	addBOS       bool // where tokenizer.ggml.add_bos_token says nothing
	noBOS        bool // there is none unless the file names it
}

// The expressions, as words knows them.
const (
	shortForms = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	blanks     = `\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3     = shortForms + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + blanks
	qwen2      = shortForms + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + blanks
	qwen35     = shortForms + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + blanks
	seedCoder  = shortForms + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|` + blanks
	bailing    = shortForms + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	miniCPM    = shortForms + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|` + blanks
	wordUp     = `[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*`
	wordDown   = `[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+`
	gpt4o      = wordDown + shortForms + `?|` + wordUp + shortForms + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + blanks
	tekken     = wordDown + `|` + wordUp + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + blanks
	ideographs = `[一-龥぀-ゟ゠-ヿ]+`
	deepseek   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" + `|[^\r\n\p{L}\p{P}[\p{S}--~]]?[\p{L}\p{M}]+| ?[\p{P}[\p{S}--~]]+[\r\n]*|` + blanks
	falcon     = "[\\p{P}\\$\\+<=>\\^~\\|`]+"
	unnamed    = `[\p{P}\$\+<=>\^~\|]+`
)

// cuttings are the values of tokenizer.ggml.pre that are known here.
var cuttings = named(map[string]cutting{
	"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": {split: []string{llama3}, ignoreMerges: true, addBOS: true},
	"dbrx smaug-bpe":   {split: []string{llama3}},
	"glm4 chatglm-bpe": {split: []string{llama3}, noBOS: true},
	"qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2": {split: []string{qwen2}},
	"qwen35": {split: []string{qwen35}},
	"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2":                              {split: []string{`\p{N}`, words.GPT2}},
	"gpt-2 phi-2 jina-es jina-de gigachat a.x-4.0 mellum mpt olmo jais trillion granite-docling exaone4": {split: []string{words.GPT2}},
	"deepseek-v3 hunyuan-dense joyai-llm hy_v4":                                                          {split: []string{`\p{N}{1,3}`, ideographs, deepseek}},
	"gpt-4o llama4 kanana2 talkie minimax-m2":                                                            {split: []string{gpt4o}},
	"tekken":                           {split: []string{tekken}, ignoreMerges: true, addBOS: true},
	"bailingmoe bailingmoe2 llada-moe": {split: []string{bailing}},
	"seed-coder":                       {split: []string{seedCoder}},
	"minicpm5":                         {split: []string{`\p{N}{1,3}`, miniCPM}, ignoreMerges: true},
	"falcon":                           {split: []string{falcon, words.GPT2, `[0-9][0-9][0-9]`}},
	"default":                          {split: []string{unnamed, words.GPT2, `\p{N}+`, `[0-9][0-9][0-9]`}},
})

func named(groups map[string]cutting) map[string]cutting {
	each := map[string]cutting{}
	for names, c := range groups {
		for _, name := range strings.Fields(names) {
			each[name] = c
		}
	}
	return each
}

// ggml is a vocabulary on its way from the metadata to a tokenizer.
type ggml struct {
	*header
	tokens   []string
	types    []uint8 // bits, 1 << a type
	ids      map[string]int
	bos, eos int // -1: none
	addBOS   bool
	addEOS   bool
}

func loadGGUF(file io.Reader) (*Model, error) {
	h, err := readHeader(file)
	if err != nil {
		return nil, err
	}
	g := &ggml{header: h, bos: -1, eos: -1}
	v, err := g.vocabulary()
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Assemble(v)
	if err != nil {
		return nil, err
	}
	m := &Model{Form: FormGGUF, Tokenizer: t}
	files := template.Files{Chat: h.texts["tokenizer.chat_template"], ToolUse: h.texts["tokenizer.chat_template.tool_use"], Special: map[string]string{}, LlamaCPP: true}
	for name, id := range map[string]int{"bos_token": g.bos, "eos_token": g.eos} {
		if id >= 0 {
			files.Special[name], _ = t.Text(uint32(id))
		} else {
			files.Special[name] = ""
		}
	}
	if g.addBOS {
		m.bos = files.Special["bos_token"]
	}
	if g.addEOS {
		m.eos = files.Special["eos_token"]
	}
	if files.Chat == "" {
		m.TemplateWhy = "the file has no tokenizer.chat_template"
		return m, nil
	}
	m.parse(files, "tokenizer.chat_template")
	return m, nil
}

func refused(format string, values ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{tokenizer.ErrUnknown}, values...)...)
}

func (g *ggml) vocabulary() (v tokenizer.Vocabulary, err error) {
	kind, pre := g.texts["tokenizer.ggml.model"], g.texts["tokenizer.ggml.pre"]
	switch name := strings.ToLower(g.texts["general.name"]); {
	case kind == "":
		return v, fmt.Errorf("no tokenizer.ggml.model: the file holds no tokenizer (of a model in several files only the first does)")
	case kind != "gpt2" && kind != "llama":
		return v, refused("tokenizer.ggml.model %q: gpt2 and llama are", kind)
	case strings.Contains(name, "phi-3") || strings.Contains(name, "phi3"):
		return v, refused("general.name %q: llama.cpp takes white space off behind the special tokens of phi-3", name)
	case g.numbers["tokenizer.ggml.add_sep_token"] != 0:
		return v, refused("tokenizer.ggml.add_sep_token")
	}
	if err := g.readTokens(); err != nil {
		return v, err
	}
	g.addBOS, g.bos, g.eos = true, 1, 2
	if v.Tokens = g.tokens; kind == "llama" {
		v.SpacePrefix = g.flag("tokenizer.ggml.add_space_prefix", true)
		if v.Scores, err = g.scores(); err != nil {
			return v, err
		}
	} else {
		if pre == "" {
			pre = "default"
		}
		c, ok := cuttings[pre]
		if !ok {
			return v, refused("tokenizer.ggml.pre %q", pre)
		}
		v.Split, v.IgnoreMerges, v.Merges = c.split, c.ignoreMerges, g.lists["tokenizer.ggml.merges"]
		if v.Merges == nil {
			return v, fmt.Errorf("no tokenizer.ggml.merges")
		}
		g.addBOS, g.bos, g.eos = c.addBOS, 11, 11
		if c.noBOS {
			g.bos = -1
		}
	}
	if err := g.correct(); err != nil {
		return v, err
	}
	v.Kinds = g.kinds()
	v.Before, v.Behind, err = g.ends()
	return v, err
}

// readTokens reads the tokens and their types. Where there are no types all are normal.
func (g *ggml) readTokens() error {
	g.tokens, g.ids = slices.Clone(g.lists["tokenizer.ggml.tokens"]), map[string]int{}
	if len(g.tokens) == 0 {
		return fmt.Errorf("no tokenizer.ggml.tokens")
	}
	types := g.integers["tokenizer.ggml.token_type"]
	if types != nil && len(types) < len(g.tokens) {
		return fmt.Errorf("tokenizer.ggml.token_type: %d types for %d tokens", len(types), len(g.tokens))
	}
	g.types = make([]uint8, len(g.tokens))
	for id, text := range g.tokens {
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", id)
			g.tokens[id] = text
		}
		if twin, seen := g.ids[text]; seen {
			return fmt.Errorf("tokenizer.ggml.tokens: %.100q has the ids %d and %d", text, twin, id)
		}
		g.ids[text] = id
		g.types[id] = 1 << typeNormal
		if types != nil {
			g.types[id] = 0
			if t := types[id]; t >= typeNormal && t <= typeByte {
				g.types[id] = 1 << t
			}
		}
	}
	return nil
}

// scores are floats or, in some files, integers.
func (g *ggml) scores() ([]float32, error) {
	const key = "tokenizer.ggml.scores"
	scores := g.floats[key]
	for _, n := range g.integers[key] {
		scores = append(scores, float32(n))
	}
	if scores == nil {
		scores = make([]float32, len(g.tokens))
	}
	if len(scores) < len(g.tokens) {
		return nil, fmt.Errorf("%s: %d scores for %d tokens", key, len(scores), len(g.tokens))
	}
	return scores, nil
}

func (g *ggml) flag(key string, otherwise bool) bool {
	if n, told := g.numbers[key]; told {
		return n != 0
	}
	return otherwise
}

func (g *ggml) kinds() []tokenizer.Kind {
	kinds := make([]tokenizer.Kind, len(g.types))
	for id, bits := range g.types {
		switch {
		case bits&(1<<typeControl|1<<typeUnknown) != 0:
			kinds[id] = tokenizer.Special
		case bits&(1<<typeUser) != 0:
			kinds[id] = tokenizer.Added
		}
	}
	return kinds
}

// ends are what goes before a text and behind it.
func (g *ggml) ends() (before, behind []uint32, err error) {
	for _, end := range []struct {
		name string
		id   *int
		add  *bool
		into *[]uint32
	}{{"bos", &g.bos, &g.addBOS, &before}, {"eos", &g.eos, &g.addEOS, &behind}} {
		if *end.id >= len(g.tokens) {
			*end.id = -1
		}
		if n, told := g.numbers["tokenizer.ggml."+end.name+"_token_id"]; told && n < uint64(len(g.tokens)) {
			*end.id = int(n)
		}
		key := "tokenizer.ggml.add_" + end.name + "_token"
		if *end.add = g.flag(key, *end.add); !*end.add {
			continue
		}
		if *end.id < 0 {
			return nil, nil, fmt.Errorf("%s, but there is no tokenizer.ggml.%s_token_id", key, end.name)
		}
		*end.into = []uint32{uint32(*end.id)}
	}
	return before, behind, nil
}
