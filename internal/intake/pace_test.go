package intake

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

func TestABodyOfAKnownLengthIsReadWholeHoweverItComes(t *testing.T) {
	for _, length := range []int{1, firstBytes - 1, firstBytes, firstBytes + 1, 5 * firstBytes, 1 << 20} {
		want := bytes.Repeat([]byte("x"), length)
		for name, r := range map[string]io.Reader{
			"at once": bytes.NewReader(want), "in halves": iotest.HalfReader(bytes.NewReader(want)), "with its end": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			got, err := ReadWhole(r, int64(length), make([]byte, 0, 1000))
			if err != nil || !bytes.Equal(got, want) || cap(got) > length {
				t.Errorf("%d bytes %s: got %d in %d, %v", length, name, len(got), cap(got), err)
			}
		}
		if _, err := ReadWhole(bytes.NewReader(want[:length-1]), int64(length), nil); err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes less one: %v", length, err)
		}
	}
}

func TestBodiesShareOneMemoryAndTheOneTooManyIsRefused(t *testing.T) {
	memory := &Memory{}
	read := func(s *Share, bytes int) error {
		u := &Upload{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", bytes))), Writer: httptest.NewRecorder(), Memory: s}
		_, err := ReadWhole(u, int64(bytes), nil)
		return err
	}
	first, second := &Share{Of: memory, BytesMax: 100}, &Share{Of: memory, BytesMax: 100}
	if err := read(first, 60); err != nil {
		t.Fatal(err)
	}
	var full *FullError
	if err := read(second, 60); !errors.As(err, &full) || full.BytesMax != 100 {
		t.Errorf("60 beside 60 of 100: %v", err)
	}
	second.Release()
	if err := read(second, 40); err != nil {
		t.Errorf("40 beside 60 of 100: %v", err)
	}
	first.Release()
	second.Release()
	second.Release()
	if held := memory.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}
