package lineup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/warmpath/warmpath/internal/cost"
)

// ProfileFile is a profile as it is kept in a file: times in milliseconds, as profiles are published.
type ProfileFile struct {
	Name        string  `json:"name"`
	A           float64 `json:"a_ms"`
	B           float64 `json:"b_ms"`
	C           float64 `json:"c_ms"`
	D0          float64 `json:"d0_ms"`
	D1          float64 `json:"d1_ms"`
	D2          float64 `json:"d2_ms"`
	KVTokensMax int     `json:"kv_tokens"`
	BatchMax    int     `json:"batch_max"`
	ChunkTokens int     `json:"chunk_tokens"`
	BlockTokens int     `json:"block_tokens"`
	TierTokens  int     `json:"tier_tokens,omitempty"`
	TierLoad    float64 `json:"tier_load_ms,omitempty"` // a token
}

// NewProfileFile is what is written of a profile.
func NewProfileFile(p cost.Profile) ProfileFile {
	k := p.Constants.Scaled(1000)
	return ProfileFile{p.Name, k.A, k.B, k.C, k.D0, k.D1, k.D2, p.KVTokensMax, p.BatchMax, p.ChunkTokens, p.BlockTokens, p.TierTokensMax, 1000 * p.TierSeconds}
}

const profileKeys = "name, a_ms, b_ms, c_ms, d0_ms, d1_ms, d2_ms, kv_tokens, batch_max, chunk_tokens, block_tokens, tier_tokens, tier_load_ms"

// lineOf is where decoding stopped.
func lineOf(text []byte, d *json.Decoder, err error) int {
	at := d.InputOffset()
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		at = syntax.Offset
	} else if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) {
		at = kind.Offset
	}
	return 1 + bytes.Count(text[:min(max(int(at), 0), len(text))], []byte("\n"))
}

// ReadProfile reads a profile from a JSON file. Limits that it does not name are those of the published profiles.
func ReadProfile(path string) (cost.Profile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return cost.Profile{}, err
	}
	usual := cost.Profiles["h100-8b"]
	f := ProfileFile{KVTokensMax: usual.KVTokensMax, BatchMax: usual.BatchMax, ChunkTokens: usual.ChunkTokens, BlockTokens: usual.BlockTokens}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return cost.Profile{}, fmt.Errorf("profile %s, line %d: %w; there are: %s", path, lineOf(text, d, err), err, profileKeys)
	}
	for what, v := range map[string]float64{"a_ms": f.A, "c_ms": f.C, "d1_ms": f.D1, "d2_ms": f.D2, "tier_load_ms": f.TierLoad, "tier_tokens": float64(f.TierTokens)} {
		if v < 0 {
			return cost.Profile{}, fmt.Errorf("profile %s: %s is %v, below 0", path, what, v)
		}
	}
	if f.Name == "" || f.B <= 0 || f.D0 <= 0 || min(f.KVTokensMax, f.BatchMax, f.ChunkTokens, f.BlockTokens) < 1 || f.KVTokensMax < f.BlockTokens {
		return cost.Profile{}, fmt.Errorf("profile %s: name, b_ms, d0_ms, kv_tokens, batch_max, chunk_tokens and block_tokens are needed and above 0", path)
	}
	return cost.Profile{
		Name: f.Name, Constants: cost.Constants{A: f.A, B: f.B, C: f.C, D0: f.D0, D1: f.D1, D2: f.D2}.Scaled(1e-3),
		KVTokensMax: f.KVTokensMax, BatchMax: f.BatchMax, ChunkTokens: f.ChunkTokens, BlockTokens: f.BlockTokens,
		TierTokensMax: f.TierTokens, TierSeconds: f.TierLoad / 1000,
	}, nil
}
