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

func TestWhileMemoryIsShortLargeBodiesStayOutAndSmallOnesComeIn(t *testing.T) {
	memory := &Memory{}
	memory.SetTight(1000, 960)
	s := &Share{Of: memory}
	if err := s.Hold(largeBytes); err != nil {
		t.Errorf("a body that is just not large: %v", err)
	}
	err := s.Hold(1)
	if !NoRoom(err) || !strings.Contains(err.Error(), "960 bytes of memory, the limit is 1000, and no body beyond 262144 bytes comes in (setting memory_max)") {
		t.Errorf("a large body: %v", err)
	}
	memory.SetTight(0, 0)
	if err := s.Hold(1); err != nil {
		t.Errorf("with memory at hand: %v", err)
	}
	if _, refused := memory.Use(); refused != 1 {
		t.Errorf("%d refusals are counted, want 1", refused)
	}
}

func TestBodiesInFilesAreBoundedTogetherAndTakeNoMemory(t *testing.T) {
	memory := &Memory{}
	take := func(s *Share, bytes int) error {
		u := &Upload{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", bytes))), Writer: httptest.NewRecorder(), Memory: s}
		b, err := Take(u, -1, Limits{BytesMax: 1 << 20, SpoolBytes: 1000, SpoolDir: t.TempDir(), Aside: s.Aside})
		if err == nil {
			b.Close()
		}
		return err
	}
	first, second := &Share{Of: memory, FilesMax: 100_000}, &Share{Of: memory, FilesMax: 100_000}
	if err := take(first, 60_000); err != nil {
		t.Fatal(err)
	}
	if held, _ := memory.Use(); held != 0 {
		t.Errorf("%d bytes of a body in a file count as memory", held)
	}
	err := take(second, 60_000)
	if !NoRoom(err) || !strings.Contains(err.Error(), "the limit is 100000 (setting body_spool_max)") {
		t.Errorf("60000 beside 60000 of 100000: %v", err)
	}
	second.Release()
	if err := take(second, 30_000); err != nil {
		t.Errorf("30000 beside 60000 of 100000: %v", err)
	}
	first.Release()
	second.Release()
	if held, refused := memory.Files(); held != 0 || refused != 1 {
		t.Errorf("%d bytes are still held in files, %d refusals", held, refused)
	}
}
