package render

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// own is a model's own files at work.
type own struct {
	model *modelfile.Model
	exact *prompt.Exact
}

// errNoTemplate is why a chat has no tokens of our own.
var errNoTemplate = errors.New("the model has no chat template that could be used")

// tokens appends a request's. The engine's clock shows now.
func (o *own) tokens(into []uint32, a chat.Request, now time.Time) ([]uint32, error) {
	if a.Chat == nil {
		return o.exact.Tokens(into, a.Text, tokenizer.Options{Wrap: !a.Bare}), nil
	}
	if o.model.Template == nil {
		return into, errNoTemplate
	}
	text, err := o.model.Template.RenderRequest(a.Chat, a.Bytes, now)
	if err != nil {
		return into, err
	}
	text, options := o.model.Prompt(text)
	options.Wrap = options.Wrap || a.Features&chat.Wrapped != 0
	return o.exact.Tokens(into, text, options), nil
}

// dated is whether a chat's tokens may depend on the date.
func (o *own) dated() bool { return o.model.Template != nil && o.model.Template.Dated() }

// text is what a token stands for, for messages.
func (o *own) text(id uint32) string {
	text, ok := o.model.Tokenizer.Text(id)
	if !ok {
		return "no token"
	}
	return text
}

// fileKey is where a model's files are.
type fileKey struct{ path, model string }

// files are read once, by whoever needs them first.
type files struct {
	fileKey
	reading sync.Once
	read    atomic.Pointer[contents] // nil: not yet
}

// contents are what was read. They never change.
type contents struct {
	own   *own // nil: err says why
	err   error
	stamp string // of the files as they were
}

// load reads the files, unless that was done, and waits for another that is at it.
func (f *files) load(o *Options) *contents {
	f.reading.Do(func() {
		model, err := o.Load(f.path, f.model)
		if err != nil {
			f.read.Store(&contents{err: err, stamp: stampOf(f.path, nil)})
			return
		}
		made := &own{model: model, exact: prompt.NewExact(o.Seed, model.Tokenizer, prompt.ExactOptions{CacheBytes: o.CacheBytes})}
		f.read.Store(&contents{own: made, stamp: stampOf(f.path, model)})
	})
	return f.read.Load()
}

// ours are the model's own files at work, nil where they are not read, or cannot be.
func (f *files) ours() *own {
	if f == nil || f.read.Load() == nil {
		return nil
	}
	return f.read.Load().own
}

// changed is whether the files are other ones than those which were read: an engine may have returned with them.
func (f *files) changed() bool {
	was := f.read.Load()
	if was == nil {
		return false // they are being read
	}
	var model *modelfile.Model
	if was.own != nil {
		model = was.own.model
	}
	return stampOf(f.path, model) != was.stamp
}

// stampOf tells versions of files apart.
func stampOf(path string, model *modelfile.Model) (stamp string) {
	paths := []string{path}
	if model != nil {
		paths = append(paths, model.Path, model.TemplatePath)
	}
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			stamp += fmt.Sprint(info.Size(), info.ModTime().UnixNano(), " ")
		}
	}
	return stamp
}

// readable is the path of a model's files that an engine named, if it is one on this machine: a folder or a file by its full path, or a
// hub's name whose files are in this user's Hugging Face cache. What is relative would mean another thing here.
func readable(path string) string {
	if filepath.IsAbs(path) {
		if info, err := os.Stat(path); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			return path
		}
		return ""
	}
	owner, name, hub := strings.Cut(path, "/")
	if !hub || owner == "" || name == "" || strings.Contains(name, "/") || strings.HasPrefix(path, ".") || name == ".." {
		return ""
	}
	folder := filepath.Join(hubCache(), "models--"+owner+"--"+name)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return ""
	}
	return folder
}

// hubCache is where Hugging Face's own library keeps what it downloaded.
func hubCache() string {
	if hub := os.Getenv("HF_HUB_CACHE"); hub != "" {
		return hub
	}
	if home := os.Getenv("HF_HOME"); home != "" {
		return filepath.Join(home, "hub")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}
