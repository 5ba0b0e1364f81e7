// Package leash bounds what a parser may take for one input of a fuzz target. It is no part of the binary.
//
//	f.Fuzz(func(t *testing.T, text []byte) {
//		defer leash.Hold(t, len(text))()
//		_, _ = Parse(text)
//	})
package leash

import (
	"flag"
	"fmt"
	"runtime/metrics"
	"testing"
	"time"
)

const (
	timeMax       = time.Second // for one input, while fuzzing
	bytesEach     = 10          // allocated for each byte of the input
	bytesConstant = 64 << 20    // and once: tables, the bounds that parsers have of their own, and what the property itself needs
)

// Hold begins to watch one input of a number of bytes; what it returns ends that. More than 64 MiB and ten times the input in all,
// freed or not, fails the test: a length that an input claims must not become a table of that length. While fuzzing, an input that takes
// more than a second ends the process, since a parser in an endless loop never comes to the end of its test; the fuzzer then keeps the
// input. The inputs that are kept run with each `go test` too, where nothing depends on how fast the machine is.
func Hold(t testing.TB, inputBytes int) (end func()) {
	t.Helper()
	limit := uint64(bytesConstant + bytesEach*inputBytes)
	stop := func() bool { return true }
	if fuzzing() {
		stop = time.AfterFunc(timeMax, func() {
			panic(fmt.Sprintf("an input of %d bytes takes longer than %v", inputBytes, timeMax))
		}).Stop
	}
	before := allocated()
	return func() {
		t.Helper()
		took := allocated() - before
		stop()
		if took > limit {
			t.Errorf("an input of %d bytes made the parser allocate %d bytes, %d are allowed", inputBytes, took, limit)
		}
	}
}

// fuzzing says whether inputs are being made up, and not only those kept are run.
func fuzzing() bool {
	made := flag.Lookup("test.fuzz")
	return made != nil && made.Value.String() != ""
}

// allocated is the bytes taken from the heap since the process began. Small objects are counted when their span is full, large ones at once;
// runtime.ReadMemStats would know all, and stop the world for it with every input.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
