package declog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// logged writes records with these ids, and closes the log.
func logged(t *testing.T, o Options, ids ...string) {
	t.Helper()
	w := create(t, o)
	for _, id := range ids {
		r := w.Record()
		r.ID = id
		w.Log(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// ids are those of a file's records, compressed or not; a line that is none is "-".
func ids(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if info, err := f.Stat(); err == nil && framed(f, info.Size()) {
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		in = z
	}
	var all []string
	for d := NewReader(in); ; {
		var r Record
		switch err := d.Next(&r); {
		case err == io.EOF:
			return strings.Join(all, " ")
		case errors.As(err, new(*LineError)):
			r.ID = "-"
		case err != nil:
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, r.ID)
	}
}

func TestACompressedLogGoesOnWhereItEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl.zst")
	o := Options{Path: path, Compress: CompressZstd}
	logged(t, o, "a", "b")
	logged(t, o, "c")
	if got := ids(t, path); got != "a b c" {
		t.Errorf("read %q", got)
	}
	if b, _ := os.ReadFile(path); int64(len(b)) != wholeFrames(bytes.NewReader(b), int64(len(b))) {
		t.Errorf("no file of whole frames: %q", b)
	}
	if _, err := os.Stat(path + ".1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was put aside: %v", err)
	}
}

func TestWhatCannotBeGoneOnWithIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	compressed := Options{Path: path, Compress: CompressZstd}
	logged(t, Options{Path: path}, "plain")
	logged(t, compressed, "a")
	logged(t, compressed, "b")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Wherever a crash cuts the last frame off, the ones before are read, and what comes later is in a file of its own.
	for cut := len(whole) - 1; cut > len(whole)/2; cut-- {
		if err := os.WriteFile(path, whole[:cut], 0o640); err != nil {
			t.Fatal(err)
		}
		torn := wholeFrames(bytes.NewReader(whole[:cut]), int64(cut)) < int64(cut)
		logged(t, compressed, "later")
		got, before := ids(t, path), ids(t, path+".1")
		if torn && (got != "later" || before != "a -") || !torn && got != "a later" {
			t.Fatalf("cut at %d of %d bytes, torn %v: %q after %q", cut, len(whole), torn, got, before)
		}
	}
	logged(t, Options{Path: path}, "plain again")
	if got := ids(t, path); got != "plain again" {
		t.Errorf("read %q", got)
	}
}

func TestACrashLosesASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := create(t, Options{Compress: CompressZstd})
		r := w.Record()
		r.ID = "early"
		w.Log(r)
		<-time.After(w.opts.FlushInterval + time.Millisecond)
		synctest.Wait()
		if got := ids(t, w.opts.Path); got != "early" { // the writer still holds it open
			t.Errorf("read %q", got)
		}
	})
}

func TestCompressedFilesAreRotatedBySize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	w := create(t, Options{Path: path, Compress: CompressZstd, FileBytesMax: 64 << 10, FilesMax: 100})
	const n = 3000
	for i := range n {
		r := w.Record()
		r.ID, r.Error = fmt.Sprint(i), fmt.Sprintf("%x", uint64(i)*0x9e3779b97f4a7c15) // little to be found again
		w.Log(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := w.Stats()
	if s.Written != n || s.Rotated == 0 {
		t.Errorf("%+v", s)
	}
	var all []string
	for i := int(s.Rotated); i >= 0; i-- {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		if info, err := os.Stat(name); err != nil || info.Size() > 64<<10 {
			t.Errorf("%s: %v, %v", name, info.Size(), err)
		}
		all = append(all, strings.Fields(ids(t, name))...)
	}
	if len(all) != n || all[0] != "0" || all[n-1] != fmt.Sprint(n-1) {
		t.Errorf("%d records, from %s to %s", len(all), all[0], all[len(all)-1])
	}
}

func TestADiskThatRefusesAFrameCostsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	logged(t, Options{Path: path, Compress: CompressZstd}, "a")
	coder, err := newCoder(CompressZstd)
	if err != nil {
		t.Fatal(err)
	}
	l := file{path: path, bytesMax: 1 << 20, filesMax: 1, coder: coder}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	l.f.Close() // every write is an error
	if n, err := l.write([]byte("{}\n")); n != 0 || err == nil {
		t.Errorf("%d bytes taken, %v", n, err)
	}
	if n, err := l.write([]byte(`{"v":1,"id":"b"}` + "\n")); n == 0 || err != nil || l.close() != nil {
		t.Errorf("%d bytes taken, %v", n, err)
	}
	if got := ids(t, path); got != "a b" {
		t.Errorf("read %q", got)
	}
}

func TestTheTextOfAPromptIsBoundedAndStaysInTheLog(t *testing.T) {
	w := create(t, Options{Text: true})
	r := w.Record()
	r.ID, r.Text = "a", strings.Repeat("x", TextBytesMax+1)
	var kept Record
	r.Copy(&kept)
	if w.Log(r); kept.Text != "" || kept.TextCut || !w.KeepsText() {
		t.Errorf("a copy has the text: %.20q", kept.Text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, w.opts.Path); len(got) != 1 || len(got[0].Text) != TextBytesMax || !got[0].TextCut {
		t.Errorf("%d records", len(got))
	}
}

func TestACompressionThatThereIsNotIsRefused(t *testing.T) {
	if _, err := Create(Options{Path: filepath.Join(t.TempDir(), "d"), Compress: "lz4"}); err == nil || !strings.Contains(err.Error(), "decision_log.compress") {
		t.Error(err)
	}
}
