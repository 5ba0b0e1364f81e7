package tokenizer

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnknown is what Load's error wraps where a file is sound, but asks for something that is not known here: it is refused by its name,
// since tokens that were guessed would name blocks that no engine has. Other errors of Load say that the file itself is broken.
var ErrUnknown = errors.New("not known here")

type errUnknown struct{ what string }

func (e errUnknown) Error() string { return "not known here: " + e.what }
func (e errUnknown) Unwrap() error { return ErrUnknown }

// unknown names what is not known; long names are cut.
func unknown(format string, names ...any) error {
	for i, n := range names {
		if s, ok := n.(string); ok {
			names[i] = quote(s)
		}
	}
	return errUnknown{fmt.Sprintf(format, names...)}
}

// quoteBytesMax is how much of a name out of a file an error repeats.
const quoteBytesMax = 200

func quote(s string) string {
	if len(s) > quoteBytesMax {
		s = strings.ToValidUTF8(s[:quoteBytesMax], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
