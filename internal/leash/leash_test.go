package leash

import (
	"fmt"
	"testing"
)

// told is a test that notes what it was told.
type told struct {
	testing.TB
	errors []string
}

func (*told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

var kept []byte

func TestAParserThatBelievesALengthIsFound(t *testing.T) {
	for size, want := range map[int]int{1 << 20: 0, bytesConstant + 1<<20: 1} {
		var is told
		end := Hold(&is, 3)
		kept = make([]byte, size)
		end()
		if len(is.errors) != want {
			t.Errorf("%d bytes: %q", size, is.errors)
		}
	}
	kept = nil
}

func TestALargeInputMayTakeMore(t *testing.T) {
	var is told
	end := Hold(&is, 8<<20)
	kept = make([]byte, bytesConstant+1<<20)
	end()
	if kept = nil; len(is.errors) != 0 {
		t.Error(is.errors)
	}
}
