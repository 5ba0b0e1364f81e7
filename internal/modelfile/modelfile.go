// Package modelfile reads a model's files: its tokenizer and its chat template, from where engines have them. Nothing is downloaded.
//
//	m, err := modelfile.Load("/models/Qwen3-8B", "Qwen/Qwen3-8B")
//	text, options := m.Prompt(rendered)
//	ids := m.Tokenizer.Encode(nil, text, options)
//
// A tokenizer that is not known here is an error; a template that is not, leaves Template nil and says why, since requests with a prompt of
// their own need none.
package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmpath/warmpath/internal/template"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// The forms in which a tokenizer comes. Engines that read the one are not those that read the other: vLLM and SGLang, and llama.cpp.
const (
	FormJSON = "tokenizer.json"
	FormGGUF = "gguf"
)

// Model is what a model's files hold. Any number of goroutines may use it at once.
type Model struct {
	Path, Form   string // the file that the tokenizer was read from, and FormJSON or FormGGUF
	Tokenizer    *tokenizer.Tokenizer
	Template     *template.Template // nil: none, or refused
	TemplateWhy  string             // why Template is nil
	TemplatePath string             // the file that the template was read from

	bos, eos string // what a prompt must not begin and end with when the tokenizer puts it there; "" for none
}

// Prompt is how the engine that reads these files encodes what the chat template wrote: the text and options for Encode. With a
// tokenizer.json the template itself writes BOS. llama.cpp lets the tokenizer put BOS and EOS around every prompt, and takes off what the
// template wrote of them.
func (m *Model) Prompt(rendered string) (string, tokenizer.Options) {
	if m.Form != FormGGUF {
		return rendered, tokenizer.Options{}
	}
	return strings.TrimSuffix(strings.TrimPrefix(rendered, m.bos), m.eos), tokenizer.Options{Wrap: true}
}

// Bounds of files; beyond them an error names the file and the bound. The largest tokenizer.json there are have 35 MB.
const (
	tokenizerBytesMax = 256 << 20
	smallBytesMax     = 8 << 20 // template files
)

// Load reads the model at path: a folder with a tokenizer.json, a tokenizer.json itself, a .gguf file or a folder with one, or Hugging
// Face's cache: a snapshot, a models--org--name, or the folder that these are in, for which the model's name is needed.
func Load(path, model string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return loadFile(path)
	}
	if path, err = resolve(path, model); err != nil {
		return nil, err
	}
	if exists(filepath.Join(path, FormJSON)) {
		return loadFile(filepath.Join(path, FormJSON))
	}
	found, err := ggufIn(path)
	if err != nil {
		return nil, err
	}
	return loadFile(found)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// loadFile reads a file by what it is, not by its name: engines' caches name files by their hashes.
func loadFile(path string) (*Model, error) {
	file, _, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var magic [4]byte
	n, err := io.ReadFull(file, magic[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if string(magic[:n]) == ggufMagic {
		m, err := loadGGUF(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.Path, m.TemplatePath = path, path
		return m, nil
	}
	if !bytes.HasPrefix(bytes.TrimLeft(magic[:n], " \t\r\n\ufeff"), []byte("{")) {
		return nil, fmt.Errorf("%s is neither a tokenizer.json nor a .gguf file", path)
	}
	text, err := readFile(path, tokenizerBytesMax)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &Model{Path: path, Form: FormJSON, Tokenizer: t}
	m.readTemplate(filepath.Dir(path))
	return m, nil
}

// open opens what is a file: to open a pipe would wait for someone to write into it.
func open(path string) (file *os.File, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no file", path)
	}
	file, err = os.Open(path)
	return file, info.Size(), err
}

// readFile reads a whole file of at most max bytes.
func readFile(path string, max int64) ([]byte, error) {
	file, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > max {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, size, max)
	}
	text, err := io.ReadAll(io.LimitReader(file, max))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}
