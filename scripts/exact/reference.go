package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// reference is a node process that encodes with the reference tokenizer.
type reference struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	dir     string // for files that both read
}

type job struct {
	Tokenizer string `json:"tokenizer"`
	Strings   string `json:"strings"`
	Out       string `json:"out"`
	Wrap      bool   `json:"wrap"`
	Fresh     bool   `json:"fresh"` // the file may have changed since the last job
}

func startReference(modules string) (*reference, error) {
	r := &reference{command: exec.Command("node", filepath.Join(filepath.Dir(modules), "reference.mjs"))}
	r.command.Stderr = os.Stderr
	var err error
	if r.in, err = r.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	if r.dir, err = os.MkdirTemp("", "exact-"); err != nil {
		return nil, err
	}
	return r, r.command.Start()
}

func (r *reference) close() error {
	defer os.RemoveAll(r.dir)
	if err := r.in.Close(); err != nil {
		return err
	}
	return r.command.Wait()
}

// file writes what both sides read.
func (r *reference) file(name string, text []byte) (string, error) {
	name = filepath.Join(r.dir, name)
	return name, os.WriteFile(name, text, 0o600)
}

// encode gives the ids of all strings.
func (r *reference) encode(tokenizer string, texts []string, wrap bool) ([][]uint32, error) {
	list, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	j := job{Tokenizer: tokenizer, Out: filepath.Join(r.dir, "ids"), Wrap: wrap, Fresh: strings.HasPrefix(tokenizer, r.dir)}
	if j.Strings, err = r.file("strings", list); err != nil {
		return nil, err
	}
	line, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(r.in, "%s\n", line); err != nil {
		return nil, err
	}
	if answer, err := r.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the reference gave up on %s (%q): %w", tokenizer, answer, err)
	}
	packed, err := os.ReadFile(j.Out)
	if err != nil {
		return nil, err
	}
	ids := make([][]uint32, 0, len(texts))
	for len(packed) > 0 {
		n := binary.LittleEndian.Uint32(packed)
		packed = packed[4:]
		one := make([]uint32, n)
		for i := range one {
			one[i] = binary.LittleEndian.Uint32(packed[4*i:])
		}
		packed = packed[4*n:]
		ids = append(ids, one)
	}
	if len(ids) != len(texts) {
		return nil, fmt.Errorf("the reference encoded %d of %d strings", len(ids), len(texts))
	}
	return ids, nil
}
