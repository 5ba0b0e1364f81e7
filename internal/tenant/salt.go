package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Salt is the cache salt of a tenant's prompts. Without the secret nobody can make that of another, nor one that comes out the same: what a
// client says as its own salt, "" nothing, keeps the tenant's own prompts apart from each other and no more. It has 43 characters always, so
// that engines which write something behind it are no way around that.
func Salt(secret []byte, tenant, own string) string {
	h := hmac.New(sha256.New, secret)
	for _, part := range [...]string{"cache salt", tenant, own} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part)))) // else "a", "bc" would be "ab", "c"
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
