package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// tokenizeBytesMax bounds what is read.
const tokenizeBytesMax = 64 << 20

// tokenizeFlags are the flags of `warmpath tokenize`.
type tokenizeFlags struct {
	path, model             string
	chat, wrap, plain, json bool
}

// tokenizedText is what --json prints.
type tokenizedText struct {
	Path     string   `json:"path"`
	Form     string   `json:"form"`
	Template string   `json:"template,omitempty"` // the file that it is in
	Prompt   string   `json:"prompt,omitempty"`   // what the template wrote
	Tokens   int      `json:"tokens"`
	IDs      []uint32 `json:"ids"`
}

// tokenizeCommand is `warmpath tokenize`: what exact mode makes of a text, without an engine.
func tokenizeCommand() *cobra.Command {
	var f tokenizeFlags
	command := &cobra.Command{
		Use:   "tokenize --tokenizer PATH [FILE|-]",
		Short: "Show the tokens that a model's own files make of a text",
		Long: `tokenize reads a model's files as exact mode does, and prints the ids that they make of a text, or of a chat request with --chat.
Compare them with your engine's own: vLLM, SGLang and llama.cpp answer POST /tokenize.

PATH is a folder with a tokenizer.json, the file itself, a .gguf file, or a folder of Hugging Face's cache: a snapshot, a models--ORG--NAME,
or the folder that these are in, for which --model names the model. Nothing is downloaded. A tokenizer or a template that is not known
here is refused by its name, never guessed.

The text is that of FILE, or what comes on standard input; with --chat it is the JSON body of a POST /v1/chat/completions.

` + exitCodesUsage,
		Example: `  echo -n "Hello world" | warmpath tokenize --tokenizer ~/models/Qwen3-8B
  warmpath tokenize --tokenizer ~/models/SmolLM2-135M.gguf --chat request.json
  warmpath tokenize --tokenizer ~/.cache/huggingface/hub --model Qwen/Qwen3-8B --wrap --json prompt.txt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.path, "tokenizer", "", "the model's files")
	flags.StringVar(&f.model, "model", "", "the model's name, to find it in a cache of several")
	flags.BoolVar(&f.chat, "chat", false, "the input is a chat request: apply the model's template first, and show what it wrote")
	flags.BoolVar(&f.wrap, "wrap", false, "with the tokens that the model wants around a text of its own, such as BOS, as /v1/completions has them")
	flags.BoolVar(&f.plain, "plain", false, "special tokens that are spelt in the text are text like any other")
	flags.BoolVar(&f.json, "json", false, "one JSON object: path, form, prompt, tokens, ids")
	return command
}

func (f *tokenizeFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case f.path == "":
		return usageError{fmt.Errorf("--tokenizer is missing: the path of the model's files")}
	case f.chat && (f.wrap || f.plain):
		return usageError{fmt.Errorf("--chat with --wrap or --plain: engines tokenize a chat prompt in one way only")}
	}
	m, err := modelfile.Load(f.path, f.model)
	if err != nil {
		return fmt.Errorf("--tokenizer: %w", err)
	}
	text, err := tokenizeInput(cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	out := tokenizedText{Path: m.Path, Form: m.Form}
	options := tokenizer.Options{Wrap: f.wrap, PlainSpecial: f.plain}
	if f.chat {
		if m.Template == nil {
			return fmt.Errorf("no prompt: %s", m.TemplateWhy)
		}
		if out.Prompt, err = m.Template.Render(text, time.Now()); err != nil {
			return fmt.Errorf("the chat request: %w", err)
		}
		out.Template = m.TemplatePath
		text, options = m.Prompt(out.Prompt)
	}
	out.IDs = m.Tokenizer.Encode([]uint32{}, text, options)
	out.Tokens = len(out.IDs)
	if f.json {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetEscapeHTML(false)
		return e.Encode(out)
	}
	return printTokens(cmd.OutOrStdout(), out, m.Tokenizer)
}

func tokenizeInput(stdin io.Reader, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return "", usageError{err}
		}
		defer file.Close()
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, tokenizeBytesMax+1))
	if err == nil && len(text) > tokenizeBytesMax {
		err = fmt.Errorf("the input has more than %d bytes", tokenizeBytesMax)
	}
	return string(text), err
}

// printTokens prints the prompt, if there is one, and a line for each token: its id and what it stands for.
func printTokens(w io.Writer, out tokenizedText, t *tokenizer.Tokenizer) error {
	if out.Prompt != "" {
		if _, err := fmt.Fprintf(w, "prompt, by the template in %s:\n%s\n\n", out.Template, out.Prompt); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "%s, by %s\n", counted(out.Tokens, "token"), out.Path); err != nil {
		return err
	}
	for _, id := range out.IDs {
		text, _ := t.Text(id)
		if _, err := fmt.Fprintf(w, "%8d  %q\n", id, text); err != nil {
			return err
		}
	}
	return nil
}
