//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"
)

// recorded is a request of a client, as it is put together in public sources, and what the client looks for in the answer.
type recorded struct {
	Why         string
	Method      string
	Path        string
	Headers     map[string]string
	Body        json.RawMessage
	LeavesAfter int `json:"leaves_after"` // bytes; the client aborts then
	Status      int
	Has         []string // in the answer, in this order
	Lacks       []string
}

// replay sends what was recorded of a client, in the order of the files' names.
func (b *bench) replay(t *testing.T, client string) {
	folder := path.Join("testdata", client)
	files, err := testdata.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := testdata.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var r recorded
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&r); err != nil {
			t.Fatalf("%s: %v", file.Name(), err)
		}
		status, said := b.send(t, &r)
		if status != r.Status {
			t.Errorf("%s: %d, want %d: %.500s", file.Name(), status, r.Status, said)
		}
		rest := said
		for _, has := range r.Has {
			_, after, found := strings.Cut(rest, has)
			if !found {
				t.Errorf("%s: the answer lacks %q, or has it elsewhere: %.2000s", file.Name(), has, said)
			}
			rest = after
		}
		for _, lacks := range r.Lacks {
			if strings.Contains(said, lacks) {
				t.Errorf("%s: the answer has %q: %.2000s", file.Name(), lacks, said)
			}
		}
	}
	router := &stack{admin: b.admin}
	eventually(t, "nothing is left in flight", 10*time.Second, func() bool { return router.metric(t, "warmpath_worker_inflight_requests") == 0 })
}

// decode runs a command and reads the JSON that it prints. It may be called beside the test.
func decode(t *testing.T, cmd *exec.Cmd, into any) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Errorf("%s printed %q: %v", strings.Join(cmd.Args, " "), out, err)
	}
}
