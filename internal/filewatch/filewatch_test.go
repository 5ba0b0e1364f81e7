package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watched is a Watcher whose looks the test makes; look makes two.
func watched(log *strings.Builder) (w *Watcher, look func(), took *[]string) {
	took = new([]string)
	w = New(Options{Log: slog.New(slog.NewTextHandler(log, nil)), Took: func(what string, good bool) {
		*took = append(*took, what+map[bool]string{true: " good", false: " bad"}[good])
	}})
	return w, func() { w.lookAll(); w.lookAll() }, took
}

func TestFilesThatChangeAreTakenTogether(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "1")
	write(t, b, "1")
	var log strings.Builder
	w, look, took := watched(&log)
	var got []string
	stop, err := w.Add("pair", []string{a, b}, func(c [][]byte) error {
		if string(c[0]) != string(c[1]) {
			return errors.New("a and b differ")
		}
		got = append(got, string(c[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	look()
	write(t, a, "2") // and b has not come yet
	w.lookAll()
	write(t, b, "2")
	look()
	if text := log.String(); strings.Join(got, " ") != "1 2" || strings.Contains(text, "differ") {
		t.Errorf("took %v, said %s", got, text)
	}
	write(t, a, "3")
	look()
	look()
	if n := strings.Count(log.String(), "a and b differ"); n != 1 || len(got) != 2 {
		t.Errorf("told %d times, took %v", n, got)
	}
	os.Remove(b)
	look()
	if text := log.String(); !strings.Contains(text, "no such file") || !strings.Contains(text, b) {
		t.Errorf("a file that is gone: %s", text)
	}
	write(t, a, "2")
	write(t, b, "2") // as before: nothing to take
	look()
	write(t, a, "3")
	look()
	if n := strings.Count(log.String(), "a and b differ"); n != 2 {
		t.Errorf("the same mistake made again is told %d times", n)
	}
	write(t, b, "3")
	look()
	stop()
	write(t, a, "4")
	write(t, b, "4")
	look()
	if strings.Join(got, " ") != "1 2 3" || strings.Join(*took, ",") != "pair good,pair bad,pair bad,pair bad,pair good" {
		t.Errorf("took %v, heard %v", got, *took)
	}
}

func TestASymlinkThatIsSwappedAndAFileThatIsReplacedAreSeen(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		os.Mkdir(filepath.Join(dir, version), 0o700)
		write(t, filepath.Join(dir, version, "key"), version)
	}
	// As Kubernetes has it: key -> ..data/key, ..data -> v1, and ..data is renamed over.
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("v1", filepath.Join(dir, "..data")))
	must(os.Symlink("..data/key", filepath.Join(dir, "key")))
	var log strings.Builder
	w, look, _ := watched(&log)
	got := ""
	_, err := w.Add("key", []string{filepath.Join(dir, "key")}, func(c [][]byte) error { got = string(c[0]); return nil })
	must(err)
	must(os.Symlink("v2", filepath.Join(dir, "..tmp")))
	must(os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	look()
	if got != "v2" {
		t.Errorf("behind the swapped link: %q", got)
	}
	write(t, filepath.Join(dir, "new"), "v3")
	must(os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "key")))
	look()
	if got != "v3" {
		t.Errorf("after the rename: %q", got)
	}
}

func TestWhatCannotBeReadAtFirstIsAnErrorThatNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long")
	write(t, long, strings.Repeat("x", 100))
	w := New(Options{FileBytesMax: 99})
	for file, want := range map[string]string{filepath.Join(dir, "none"): "none: no such file", long: "long is longer than 99 bytes", dir: "is a directory"} {
		if _, err := w.Add("x", []string{file}, func([][]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	write(t, long, "x")
	if _, err := w.Add("x", []string{long}, func([][]byte) error { return errors.New("no good") }); err == nil || len(w.sets) != 0 {
		t.Errorf("%v, %d sets", err, len(w.sets))
	}
}

func TestARunningWatcherLooksByItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	write(t, file, "1")
	w := New(Options{Interval: time.Millisecond})
	got := make(chan string, 2)
	if _, err := w.Add("a", []string{file}, func(c [][]byte) error { got <- string(c[0]); return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { w.Run(ctx) })
	defer done.Wait()
	defer cancel()
	if first := <-got; first != "1" {
		t.Error(first)
	}
	write(t, file+".new", "2")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	if second := <-got; second != "2" {
		t.Error(second)
	}
}
