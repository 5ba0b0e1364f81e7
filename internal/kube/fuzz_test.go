package kube

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
)

// watched are the names that a watch with these lines leaves, and what ended it; nil where it was the end of the text.
func watched(t *testing.T, text []byte) (*store[Pod, *Pod], error) {
	t.Helper()
	s := &store[Pod, *Pod]{objects: map[string]Pod{}}
	in, changes, lines := bufio.NewReaderSize(bytes.NewReader(text), 16), 0, 0
	for ; ; lines++ {
		line, err := readLine(in)
		if len(bytes.TrimSpace(line)) > 0 {
			if err := s.apply(line, func() { changes++ }); err != nil {
				return s, err
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) || changes > lines+1 || lines > len(text) {
				t.Errorf("%d changes of %d lines, then %v", changes, lines, err)
			}
			return s, nil
		}
	}
}

// FuzzWatch reads anything as a watch: it is objects or an error, each name is told once and in the order in which it came, and telling
// them a second time changes nothing.
func FuzzWatch(f *testing.F) {
	for _, text := range []string{
		`{"type":"ADDED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"7","labels":{"app":"vllm"}},"status":{"podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}]}}}` + "\n" +
			`{"type":"MODIFIED","object":{"metadata":{"name":"a","deletionTimestamp":"2027-01-01T00:00:00Z"}}}` + "\n\n" + `{"type":"DELETED","object":{"metadata":{"name":"a"}}}`,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}`,
		`{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}`,
		`{"type":"ERROR","object":[]}`, `{"type":"ADDED","object":null}`, `{"type":"ADDED"}`, `null`, "{}\r\n\x00",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		s, err := watched(t, text)
		sorted := slices.Sorted(slices.Values(s.order))
		if !slices.Equal(sorted, slices.Sorted(maps.Keys(s.objects))) {
			t.Fatalf("order %q, objects %q", s.order, sorted)
		}
		if err != nil {
			return
		}
		before := s.all()
		for _, o := range before {
			if name := o.meta().Name; !reflect.DeepEqual(s.objects[name], o) {
				t.Errorf("%q is not the object of that name", name)
			}
			s.put(o)
		}
		if !reflect.DeepEqual(before, s.all()) {
			t.Errorf("told again, %+v became %+v", before, s.all())
		}
	})
}

func TestAKubeconfigIsNamedAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "50%s off%d")
	if err := os.WriteFile(file, []byte("current-context: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(Place{Kubeconfig: file})
	if want := "the kubeconfig " + file + `: there is no context "none"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
