package modelfile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/tokenizer"
)

const tokenizerJSON = `{"added_tokens":[{"id":5,"content":"<s>","special":true}],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":false},
	"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[5],"tokens":["<s>"]}}},
	"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"ab":4,"<s>":5},"merges":["a b"]}}`

// write makes files, by their paths below a folder; "-> x" makes a link to x.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rendered is the prompt of an empty conversation.
func rendered(t *testing.T, m *Model) string {
	t.Helper()
	if m.Template == nil {
		t.Fatal(m.TemplateWhy)
	}
	text, err := m.Template.Render(`{"messages":[]}`, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheTemplateComesFromTheFileThatCountsFirst(t *testing.T) {
	const (
		jinja  = "jinja {{ bos_token }}"
		legacy = `{"chat_template":"legacy {{ bos_token }}"}`
		config = `{"bos_token":"<s>","chat_template":"config {{ bos_token }}"}`
		named  = `{"bos_token":{"content":"<named>"}}`
		noChat = `{"model_max_length":8192}`
	)
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"chat_template.jinja": jinja, "chat_template.json": legacy, "tokenizer_config.json": config}, "jinja <s>"},
		{map[string]string{"chat_template.json": legacy, "tokenizer_config.json": config}, "legacy <s>"},
		{map[string]string{"tokenizer_config.json": config, "special_tokens_map.json": named}, "config <s>"},
		{map[string]string{"chat_template.jinja": jinja, "tokenizer_config.json": noChat, "special_tokens_map.json": named}, "jinja <named>"},
		{map[string]string{"chat_template.jinja": jinja}, "jinja "},
	} {
		c.files["tokenizer.json"] = tokenizerJSON
		dir := write(t, c.files)
		for _, path := range []string{dir, filepath.Join(dir, "tokenizer.json")} {
			m, err := Load(path, "any")
			if err != nil {
				t.Fatal(err)
			}
			if got := rendered(t, m); got != c.want || m.Form != FormJSON || m.Path != filepath.Join(dir, "tokenizer.json") {
				t.Errorf("%v: %q, %+v", c.files, got, m)
			}
		}
	}
}

func TestRequestsWithToolsHaveATemplateOfTheirOwnWhereThereIsOne(t *testing.T) {
	m, err := Load(write(t, map[string]string{"tokenizer.json": tokenizerJSON, "chat_template.jinja": "chat", "additional_chat_templates/tool_use.jinja": "tools"}), "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.Template.Render(`{"messages":[],"tools":[]}`, time.Time{})
	if text != "tools" || rendered(t, m) != "chat" {
		t.Error(text, err)
	}
}

func TestATemplateThatIsRefusedIsNamedWithItsLineAndLeavesTheTokenizer(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		why   []string
	}{
		"unknown tag": {map[string]string{"chat_template.jinja": "a\nb{% frobnicate %}"}, []string{"chat_template.jinja", "frobnicate", "line 2"}},
		"no template": {map[string]string{"tokenizer_config.json": "{}"}, []string{"chat_template.jinja", "tokenizer_config.json"}},
		"bad JSON":    {map[string]string{"tokenizer_config.json": "{"}, []string{"tokenizer_config.json"}},
		"huge":        {map[string]string{"chat_template.jinja": strings.Repeat("a", smallBytesMax+1)}, []string{"8388609", "8388608"}},
		"a folder":    {map[string]string{"chat_template.jinja/x": ""}, []string{"chat_template.jinja is no file"}},
	} {
		c.files["tokenizer.json"] = tokenizerJSON
		m, err := Load(write(t, c.files), "")
		if err != nil {
			t.Fatal(name, err)
		}
		for _, part := range c.why {
			if m.Template != nil || !strings.Contains(m.TemplateWhy, part) {
				t.Errorf("%s: %q without %q", name, m.TemplateWhy, part)
			}
		}
		if ids := m.Tokenizer.Encode(nil, "abc<s>", tokenizer.Options{}); len(ids) != 3 {
			t.Error(name, ids)
		}
	}
}

func TestWithATokenizerJSONTheTemplateItselfWritesBOS(t *testing.T) {
	m, err := Load(write(t, map[string]string{"tokenizer.json": tokenizerJSON, "tokenizer_config.json": `{"bos_token":"<s>","chat_template":"{{ bos_token }}ab"}`}), "")
	if err != nil {
		t.Fatal(err)
	}
	text, o := m.Prompt(rendered(t, m))
	if got := spelt(m, text, o); got != "<s>|ab" {
		t.Error(got)
	}
}

func TestHuggingFacesCacheIsFollowedToTheRevisionThatIsMain(t *testing.T) {
	other := strings.Replace(tokenizerJSON, `"merges":["a b"]`, `"merges":[]`, 1)
	dir := write(t, map[string]string{
		"hub/models--org--name/refs/main":                       "rev2\n",
		"hub/models--org--name/blobs/0123":                      tokenizerJSON,
		"hub/models--org--name/snapshots/rev1/tokenizer.json":   other,
		"hub/models--org--name/snapshots/rev2/tokenizer.json":   "-> ../../blobs/0123",
		"hub/models--org--single/snapshots/only/tokenizer.json": tokenizerJSON,
		"hub/models--bare/snapshots/a/tokenizer.json":           tokenizerJSON,
		"hub/models--bare/snapshots/b/tokenizer.json":           tokenizerJSON,
		"hub/models--gone/refs/main":                            "rev9",
		"hub/models--gone/snapshots/rev1/tokenizer.json":        tokenizerJSON,
		"hub/models--evil/refs/main":                            "../../models--org--name/snapshots/rev1",
		"hub/models--evil/snapshots/rev1/tokenizer.json":        tokenizerJSON,
		"hub/models--part/refs/main":                            "rev1",
		"hub/models--part/snapshots/rev1/config.json":           "{}",
	})
	at := func(parts ...string) string { return filepath.Join(append([]string{dir, "hub"}, parts...)...) }
	for _, c := range []struct{ path, model, want, err string }{
		{at(), "org/name", at("models--org--name/snapshots/rev2/tokenizer.json"), ""},
		{dir, "org/name", at("models--org--name/snapshots/rev2/tokenizer.json"), ""}, // as HF_HOME names it
		{at("models--org--name"), "an alias", at("models--org--name/snapshots/rev2/tokenizer.json"), ""},
		{at("models--org--name/snapshots/rev1"), "", at("models--org--name/snapshots/rev1/tokenizer.json"), ""},
		{at("models--org--name/blobs/0123"), "", at("models--org--name/blobs/0123"), ""},
		{at(), "org/single", at("models--org--single/snapshots/only/tokenizer.json"), ""},
		{at(), "", "", "name one"},
		{at(), "org/unknown", "", "models--org--unknown"},
		{at(), "../x", "", "models--..--x"},
		{at(), "bare", "", "2 revisions (a, b)"},
		{at(), "gone", "", "rev9"},
		{at(), "evil", "", "names no revision"},
		{at(), "part", "", "neither a tokenizer.json nor a .gguf"},
	} {
		m, err := Load(c.path, c.model)
		switch {
		case c.err == "" && (err != nil || m.Path != c.want):
			t.Errorf("%s for %q: %v, %v, want %s", c.path, c.model, m, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s for %q: %v, want an error with %q", c.path, c.model, err, c.err)
		}
	}
}

func TestAFolderWithAGGUFFileIsThatFile(t *testing.T) {
	file := string(gguf(binary.LittleEndian, 3, byteLevel()...))
	for _, c := range []struct {
		files     map[string]string
		want, err string
	}{
		{map[string]string{"m-Q4.gguf": file, "mmproj-m.gguf": "x", "readme.md": "x"}, "m-Q4.gguf", ""},
		{map[string]string{"m-00001-of-00002.gguf": file, "m-00002-of-00002.gguf": "x"}, "m-00001-of-00002.gguf", ""},
		{map[string]string{"tokenizer.json": tokenizerJSON, "m.gguf": file}, "tokenizer.json", ""},
		{map[string]string{"a.gguf": file, "b.gguf": file}, "", "2 .gguf files (a.gguf, b.gguf)"},
		{map[string]string{"a.gguf": file[:len(file)/2]}, "", "ends within"},
		{map[string]string{"tokenizer.model": "x"}, "", "no tokenizer.json"},
		{map[string]string{"config.json": "x"}, "", "neither a tokenizer.json nor a .gguf"},
	} {
		dir := write(t, c.files)
		m, err := Load(dir, "")
		switch {
		case c.err == "" && (err != nil || m.Path != filepath.Join(dir, c.want)):
			t.Errorf("%v, %v, want %s", m, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%v, want an error with %q", err, c.err)
		}
	}
}

func TestAFileThatIsNoTokenizerIsAnErrorThatNamesIt(t *testing.T) {
	dir := write(t, map[string]string{"empty": "", "text": "hello", "unigram.json": `{"model":{"type":"Unigram","vocab":[]}}`, "half.json": tokenizerJSON[:100]})
	for name, part := range map[string]string{"empty": "neither", "text": "neither", "unigram.json": "Unigram", "half.json": "half.json", "none": "no such file"} {
		_, err := Load(filepath.Join(dir, name), "")
		if err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	pipe := filepath.Join(dir, "tokenizer.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if _, err := Load(path, ""); err == nil || !strings.Contains(err.Error(), "tokenizer.json is no file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Load(filepath.Join(dir, "unigram.json"), ""); !errors.Is(err, tokenizer.ErrUnknown) {
		t.Error(err)
	}
}
