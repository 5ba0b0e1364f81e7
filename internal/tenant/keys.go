package tenant

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is what is kept of a key: its SHA-256.
//
// A plain, fast hash is enough for what cannot be guessed. Slow ones (argon2id, bcrypt) are for passwords that people make up: they make
// each guess dear to whoever has stolen the file. Our keys are 256 random bits, which nobody finds at any speed; a slow hash would only
// cost every request milliseconds, and let strangers burn the router's time with wrong keys. A salt would force one hash for each key in
// the file on every look-up, to hide what random keys do not have: that two are the same. Keys that are brought along must be long, since
// their hash does not tell how they were made.
type Digest [sha256.Size]byte

// Bounds of a key, in bytes. The least has 128 random bits in base64.
const (
	keyBytesMin = 22
	keyBytesMax = 256
)

// digestForm is what stands in front of a digest in a file.
const digestForm = "sha256:"

func digestOf(text string) Digest { return sha256.Sum256([]byte(text)) }

// String is the digest as files have it; printf %s KEY | sha256sum makes the same digits.
func (d Digest) String() string { return digestForm + hex.EncodeToString(d[:]) }

// ParseDigest reads what String writes. Its error does not repeat the text, which may be a key in the clear.
func ParseDigest(text string) (d Digest, err error) {
	digits, ok := strings.CutPrefix(text, digestForm)
	if n, bad := hex.Decode(d[:], []byte(cut(digits, 2*len(d)))); !ok || bad != nil || n != len(d) || len(digits) != 2*len(d) {
		return Digest{}, fmt.Errorf("want %s and %d hexadecimal digits, the SHA-256 of the key; keys are never written in the clear", digestForm, 2*len(d))
	}
	return d, nil
}

func cut(s string, most int) string { return s[:min(len(s), most)] }

// Hash is the digest of a key that is brought along. The error does not repeat it.
func Hash(text string) (Digest, error) {
	if len(text) < keyBytesMin || len(text) > keyBytesMax {
		return Digest{}, fmt.Errorf("the key has %d bytes, want %d to %d: a shorter one can be guessed", len(text), keyBytesMin, keyBytesMax)
	}
	if !wellFormed(text) {
		return Digest{}, fmt.Errorf("the key has white space, control or non-ASCII characters, which do not pass in a header")
	}
	return digestOf(text), nil
}

// wellFormed says whether a text could be a key at all: what cannot is not hashed.
func wellFormed(text string) bool {
	if len(text) < keyBytesMin || len(text) > keyBytesMax {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// keyForm stands in front of keys that are made here, so that scanners for secrets find them.
const keyForm = "wp-"

// Fresh makes a key of random bytes. It is shown once, to be handed to the tenant; what is kept is its digest.
func Fresh(random [32]byte) string { return keyForm + base64.RawURLEncoding.EncodeToString(random[:]) }

// looksLikeKey says whether a text that should be something else is rather a key in the clear, which no message may repeat.
func looksLikeKey(text string) bool {
	return len(text) >= keyBytesMin && (strings.HasPrefix(text, keyForm) || strings.HasPrefix(text, "sk-"))
}
