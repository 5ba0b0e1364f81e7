package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/template"
)

// readTemplate looks for the template beside a tokenizer.json, as transformers does: chat_template.jinja first, then chat_template.json,
// then tokenizer_config.json. Special tokens are told by the last, or by special_tokens_map.json.
func (m *Model) readTemplate(dir string) {
	files, from, err := templateFiles(dir)
	if err != nil {
		m.TemplateWhy = err.Error()
		return
	}
	if files.Chat == "" {
		m.TemplateWhy = fmt.Sprintf("%s has no chat_template.jinja, chat_template.json or tokenizer_config.json with a chat_template", dir)
		return
	}
	m.TemplatePath = from
	m.parse(files, from)
}

func (m *Model) parse(files template.Files, from string) {
	made, err := template.Load(files, template.Auto)
	if err != nil {
		m.TemplateWhy = fmt.Sprintf("the chat template in %s is refused: %v", from, err)
		return
	}
	m.Template = made
}

func templateFiles(dir string) (files template.Files, from string, err error) {
	files = template.Files{Special: map[string]string{}}
	config, err := readConfig(dir, "tokenizer_config.json")
	if err != nil {
		return files, "", err
	}
	named, err := readConfig(dir, "special_tokens_map.json")
	if err != nil {
		return files, "", err
	}
	for _, source := range []template.Files{named, config} {
		for name, text := range source.Special {
			files.Special[name] = text
		}
	}
	path := filepath.Join(dir, "chat_template.jinja")
	text, err := readFile(path, smallBytesMax)
	switch {
	case err == nil:
		files.Chat = string(text)
		tools, err := readFile(filepath.Join(dir, "additional_chat_templates", "tool_use.jinja"), smallBytesMax)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return files, "", err
		}
		files.ToolUse = string(tools)
		return files, path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return files, "", err
	}
	single, err := readConfig(dir, "chat_template.json")
	if err != nil {
		return files, "", err
	}
	for name, source := range map[string]template.Files{"chat_template.json": single, "tokenizer_config.json": config} {
		if source.Chat != "" && (name == "chat_template.json" || single.Chat == "") {
			files.Chat, files.ToolUse, from = source.Chat, source.ToolUse, filepath.Join(dir, name)
		}
	}
	return files, from, nil
}

// readConfig reads one of the JSON files; none is as good as an empty one.
func readConfig(dir, name string) (template.Files, error) {
	text, err := readFile(filepath.Join(dir, name), smallBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return template.Files{}, nil
	}
	if err != nil {
		return template.Files{}, err
	}
	files, err := template.ReadConfig(text)
	if err != nil {
		return files, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return files, nil
}

// splitPart is the name of a part of a model in several files; only the first has the tokenizer.
var splitPart = regexp.MustCompile(`-(\d{5})-of-\d{5}\.gguf$`)

// ggufIn is the one .gguf file of a folder that may hold a tokenizer.
func ggufIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		name := e.Name()
		part := splitPart.FindStringSubmatch(name)
		if filepath.Ext(name) == ".gguf" && !strings.HasPrefix(name, "mmproj") && (part == nil || part[1] == "00001") {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1:
		return filepath.Join(dir, found[0]), nil
	case len(found) > 1:
		return "", fmt.Errorf("%s has %d .gguf files (%s): name one of them", dir, len(found), listed(found))
	case exists(filepath.Join(dir, "tokenizer.model")) || exists(filepath.Join(dir, "tekken.json")):
		return "", fmt.Errorf("%s has no tokenizer.json, only a tokenizer of another form, which is not known here: the tokenizer.json that is published for the model is", dir)
	}
	return "", fmt.Errorf("%s has neither a tokenizer.json nor a .gguf file, and is no folder of Hugging Face's cache", dir)
}

// listed are the first of some names.
func listed(names []string) string {
	const shown = 5
	slices.Sort(names)
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
