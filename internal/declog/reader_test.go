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

	"github.com/warmpath/warmpath/internal/leash"
)

func TestATornLineCostsNobodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	if err := os.WriteFile(path, []byte(`{"v":1,"id":"whole"}`+"\n"+`{"v":1,"id":"to`), 0o644); err != nil {
		t.Fatal(err)
	}
	w := create(t, Options{Path: path})
	r := w.Record()
	r.ID = "after"
	w.Log(r)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	var got []string
	for d := NewReader(bytes.NewReader(b)); ; {
		var r Record
		err := d.Next(&r)
		if err == io.EOF {
			break
		}
		var bad *LineError
		if errors.As(err, &bad) {
			got = append(got, fmt.Sprint("line ", bad.Line))
			continue
		}
		got = append(got, r.ID)
	}
	if fmt.Sprint(got) != "[whole line 2 after]" {
		t.Errorf("read %v", got)
	}
}

func TestTheReaderNamesWhatItCannotRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":2}`:                                 "line 1: version 2; this reader knows 1 to 1",
		"\n\n" + `{}`:                             `line 3: no "v"`,
		`{"v":1,"blocks":[[1]]}`:                  "is not [first,count]",
		`{"v":1,"blocks":[[1,999999999]]}`:        "is not [first,count]",
		strings.Repeat("x", lineBytesMax+100_000): "longer than",
		`[1]`: "line 1: json",
	} {
		var r Record
		d := NewReader(strings.NewReader(text + "\n" + `{"v":1,"id":"next"}`))
		if err := d.Next(&r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
		if err := d.Next(&r); err != nil || r.ID != "next" {
			t.Errorf("%.40s: behind it %v, %+v", text, err, r)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"a","blocks":[[1,3],[9,1]],"rows":[{"worker":"a"}]}` + "\n"))
	f.Add([]byte("{\"v\":1}\n{\"v\":9}\nnot json\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer leash.Hold(t, len(b))()
		d := NewReader(bytes.NewReader(b))
		for lines := 0; ; lines++ {
			var r Record
			err := d.Next(&r)
			if err == io.EOF {
				return
			}
			var bad *LineError
			if err != nil && !errors.As(err, &bad) {
				t.Fatalf("neither a record, a bad line nor the end: %v", err)
			}
			if n := len(r.Numbers(nil)); n > keysMax {
				t.Fatalf("%d numbers", n)
			}
			if lines > len(b)+1 {
				t.Fatal("no end")
			}
		}
	})
}
