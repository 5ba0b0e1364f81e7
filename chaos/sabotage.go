package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// sabotage is a fault put into the router, to see that the suite finds it: in one file of its source, a text that is there once becomes another. The
// source itself is not touched; the compiler is told to read another file in its place.
type sabotage struct {
	name, file, text, becomes string
}

// sabotages strike now and then, as such faults do.
var sabotages = []sabotage{
	{"leak", "internal/proxy/settle.go", "x.p.gate.Settle(&a.Attempt, end)", // a reservation that is not given back
		"if f.Ended.UnixMicro()%40 != 0 {\n\t\t\tx.p.gate.Settle(&a.Attempt, end)\n\t\t}"},
	{"dup", "internal/proxy/stream.go", "	n, err := s.w.Write(out)\n	s.sent += int64(n)\n	s.lighten()", // bytes that leave twice
		"	if len(out)%61 == 0 {\n		s.w.Write(out)\n	}\n	n, err := s.w.Write(out)\n	s.sent += int64(n)\n	s.lighten()"},
	{"truncate", "internal/proxy/stream.go", "	n, err := s.w.Write(out)\n	s.sent += int64(n)\n	s.lighten()", // a byte that does not
		"	if len(out)%61 == 0 {\n		out = out[:len(out)-1]\n	}\n	n, err := s.w.Write(out)\n	s.sent += int64(n)\n	s.lighten()"},
	{"wrong-worker", "internal/sched/filter.go", "	m, ok := w.Model(req.Model)\n", // a worker that does not serve the model
		"	m, ok := w.Model(req.Model)\n	if req.PromptTokens%50 == 0 && req.Adapter == \"\" {\n		return 0, true\n	}\n"},
	{"false-end", "internal/proxy/relay.go", "	err = x.broke(ctx, err)\n	var r *retryable\n", // a broken answer that looks whole
		"	if x.broke(ctx, err) != nil {\n		return nil\n	}\n	var r *retryable\n"},
}

func sabotageNames() (names []string) {
	for _, s := range sabotages {
		names = append(names, s.name)
	}
	return names
}

// in is the file's content with the fault in it. root is the module's folder.
func (s sabotage) in(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, s.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), s.text); n != 1 {
		return nil, fmt.Errorf("sabotage %s: the text to change is %d times in %s, not once; bring chaos/sabotage.go up to date", s.name, n, s.file)
	}
	return []byte(strings.Replace(string(text), s.text, s.becomes, 1)), nil
}

// module is the folder of the module that the working directory is in.
func module() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w: %s; the router is built from the module's source, run this within it or give --router", err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// build compiles a router, with a fault if one is named.
func build(binary, fault string) error {
	root, err := module()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", binary}
	for _, s := range sabotages {
		if s.name != fault {
			continue
		}
		text, err := s.in(root)
		if err != nil {
			return err
		}
		other, overlay := binary+".go.txt", binary+".json"
		replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, s.file): other}})
		if err != nil {
			return err
		}
		if err := os.WriteFile(other, text, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(overlay, replace, 0o644); err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./cmd/warmpath")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// sabotageTime is within what time each fault must be found.
const sabotageTime = time.Minute

// everySabotage runs all of them, each until something is found. It returns 0 when each was, in time.
func everySabotage(o options, errs io.Writer) int {
	missed := 0
	folder := o.folder
	for _, s := range sabotages {
		each := o
		each.sabotage, each.first, each.total, each.out = s.name, true, sabotageTime, io.Discard
		each.folder = filepath.Join(folder, s.name)
		made, err := one(each)
		switch {
		case err != nil:
			fmt.Fprintln(errs, "chaos:", err)
			return 2
		case made.keeper.count() == 0:
			missed++
			fmt.Fprintf(o.out, "%-14s NOT FOUND within %v, %d requests, %d faults\n", s.name, sabotageTime, made.requests.Load(), made.faults.Load())
		default:
			fmt.Fprintf(o.out, "%-14s found after %4.1f s: %s\n", s.name, made.keeper.firstAt.Seconds(), made.keeper.first)
		}
	}
	fmt.Fprintf(o.out, "chaos: sabotages %d, found %d, seed %d\n", len(sabotages), len(sabotages)-missed, o.seed)
	return min(missed, 1)
}
