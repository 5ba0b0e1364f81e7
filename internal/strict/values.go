package strict

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size. In YAML it is a plain number of bytes or a number with a unit: 64MiB, 1GiB, 500kB.
type Bytes int64

// Secret is a credential. Printed, logged or marshalled by accident it shows nothing; string(s) is the value.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// LogValue keeps the value out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the value out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// GoString keeps the value out of %#v.
func (s Secret) GoString() string { return s.String() }

// sizeUnits, longest first where one ends in another.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

// ParseBytes reads "64MiB" or "67108864".
func ParseBytes(text string) (Bytes, error) {
	digits, unit := strings.TrimSpace(text), int64(1)
	for _, u := range sizeUnits {
		if head, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSpace(head), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size; write a whole number with a unit, such as 64MiB or 1GiB", text)
	}
	if n < 0 {
		return 0, fmt.Errorf("%s is negative; the least is 0", text)
	}
	if n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%s is more than any machine has", text)
	}
	return Bytes(n * unit), nil
}

// String is the size in the largest binary unit that divides it.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; b != 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
