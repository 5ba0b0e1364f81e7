package modelfile

import "strings"

// endings are tokens that end a generation, by which llama.cpp knows them: they are control tokens, whatever the file says.
var endings = strings.Fields(`<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> _<EOT>
	[EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> <｜end▁of▁sentence｜> [e~[`)

// fillings are tokens for filling in the middle. A file names their ids, or else llama.cpp takes one of these names, and what it takes
// becomes a control token.
var fillings = []struct {
	keys  []string // within tokenizer.ggml
	names []string
}{
	{[]string{"fim_pre_token_id", "prefix_token_id"}, strings.Fields("<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|>")},
	{[]string{"fim_suf_token_id", "suffix_token_id"}, strings.Fields("<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|>")},
	{[]string{"fim_mid_token_id", "middle_token_id"}, strings.Fields("<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|>")},
	{[]string{"fim_pad_token_id"}, strings.Fields("<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]")},
	{[]string{"fim_rep_token_id"}, strings.Fields("<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>")},
	{[]string{"fim_sep_token_id"}, strings.Fields("<|file_sep|>")},
}

// correct changes the types of tokens that llama.cpp knows by their names.
func (g *ggml) correct() error {
	for _, f := range fillings {
		if err := g.filling(f.keys, f.names); err != nil {
			return err
		}
	}
	for _, name := range endings {
		g.control(name)
	}
	for _, name := range strings.Fields("<|channel|> <|message|> <|start|> <|constrain|>") {
		g.set(name, 1<<typeUser)
	}
	harmony := g.has("<|return|>") && (g.has("<|call|>") || g.has("<|calls|>"))
	solar := g.has("<|flush|>") && (g.has("<|call|>") || g.has("<|calls|>"))
	if harmony || solar {
		g.set("<|end|>", 1<<typeUser)
	}
	if g.has("<|tool_response>") {
		g.set("</s>", 1<<typeNormal)
	}
	return nil
}

// filling makes a control token of the one among names that is a token. Of several llama.cpp takes one by chance.
func (g *ggml) filling(keys, names []string) error {
	for _, key := range keys {
		if n, told := g.numbers["tokenizer.ggml."+key]; told && n < uint64(len(g.tokens)) {
			return nil
		}
	}
	var found []string
	loose := false
	for _, name := range names {
		if g.has(name) {
			found = append(found, name)
			loose = loose || g.types[g.ids[name]]&(1<<typeControl) == 0
		}
	}
	if loose && len(found) > 1 {
		return refused("a file with the tokens %s of which llama.cpp takes one by chance: tokenizer.ggml.%s would tell", strings.Join(found, ", "), keys[0])
	}
	for _, name := range found {
		g.control(name)
	}
	return nil
}

func (g *ggml) has(name string) bool { _, ok := g.ids[name]; return ok }

func (g *ggml) control(name string) {
	if id, ok := g.ids[name]; ok {
		g.types[id] |= 1 << typeControl
	}
}

func (g *ggml) set(name string, bits uint8) {
	if id, ok := g.ids[name]; ok {
		g.types[id] = bits
	}
}
