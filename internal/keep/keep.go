// Package keep is the form in which what a router learned, and what it assumes of caches, outlive it: two files, each whole or worthless. The room is
// pure; its owner opens the files.
//
//	text, err := keep.Encode(now, cost.Keep(book, outputs, ratio))
//	kept, err := keep.Decode(text, now, 15*time.Minute) // after a restart
//	err = kept.Recall(book, outputs, ratio)
//
// The first line names the form, its version and the SHA-256 of the rest, which is JSON. A file that lost its end, was changed by hand, has
// another version or is too old is an error, and a router that starts with such a one knows nothing yet, as at its first start.
package keep

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
)

// Version of the form. One that differs in meaning has another number.
const Version = 1

// BytesMax bounds a file that is read.
const BytesMax = 64 << 20

// Why a file is not taken, besides its being broken.
var (
	ErrTooOld  = errors.New("it is too old")
	ErrVersion = errors.New("it has another version")
)

// earliest is how far ahead of this machine's clock a file may be: it was written by the same one.
const earliest = time.Minute

type content struct {
	Saved   time.Time  `json:"saved"`
	Learned *cost.Kept `json:"learned"`
}

// Encode writes it down.
func Encode(now time.Time, learned *cost.Kept) ([]byte, error) {
	body, err := json.Marshal(content{now.UTC(), learned})
	if err != nil {
		return nil, fmt.Errorf("what was learned cannot be written: %w", err)
	}
	return append(fmt.Appendf(nil, "warmpath-learned %d %x\n", Version, sha256.Sum256(body)), body...), nil
}

// Decode reads what Encode wrote, if it is no older than ageMax.
func Decode(text []byte, now time.Time, ageMax time.Duration) (*cost.Kept, error) {
	if len(text) > BytesMax {
		return nil, fmt.Errorf("it has more than %d bytes", BytesMax)
	}
	head, body, _ := bytes.Cut(text, []byte("\n"))
	var version int
	var sum []byte
	if n, err := fmt.Sscanf(string(head[:min(len(head), 128)]), "warmpath-learned %d %x", &version, &sum); n < 1 {
		return nil, fmt.Errorf("its first line is not that of such a file: %w", err)
	}
	if version != Version {
		return nil, fmt.Errorf("%w, %d; this warmpath's is %d", ErrVersion, version, Version)
	}
	if is := sha256.Sum256(body); !bytes.Equal(sum, is[:]) {
		return nil, errors.New("it is not whole: its SHA-256 is not that of its first line")
	}
	var c content
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	if age := now.Sub(c.Saved); age > ageMax || age < -earliest {
		return nil, fmt.Errorf("%w: it was written at %s, and may be %s old (setting state_max_age)", ErrTooOld, c.Saved.Format(time.RFC3339), ageMax)
	}
	if c.Learned == nil {
		return nil, errors.New("it says nothing of what was learned")
	}
	return c.Learned, nil
}
