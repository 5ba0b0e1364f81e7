package dialog

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Embeddings have this many dimensions unless the request says otherwise.
const (
	dimensionsDefault = 64
	dimensionsMax     = 4096
)

// Embeddings is the answer of /v1/embeddings. The vectors are of unit length and depend on the prompts alone; they mean
// nothing.
func Embeddings(h Head, r *Request, prompts []Prompt, u Usage) ([]byte, error) {
	dimensions := r.Dimensions
	if dimensions < 0 || dimensions > dimensionsMax {
		return nil, Refuse("dimensions", "dimensions must be between 1 and %d, got %d.", dimensionsMax, dimensions)
	}
	if dimensions == 0 {
		dimensions = dimensionsDefault
	}
	buf := fmt.Appendf(nil, `{"id":%s,"object":"list","created":%d,"model":%s,"data":[`, quote(h.ID), h.Created, quote(h.Model))
	for i, p := range prompts {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = number(append(buf, '{'), "index", i)
		buf = append(buf, `,"object":"embedding","embedding":`...)
		buf = appendVector(buf, p.Hash, dimensions, r.EncodingFormat == "base64")
		buf = append(buf, '}')
	}
	buf = append(buf, `],`...)
	return append(u.append(buf), '}'), nil
}

func appendVector(buf []byte, seed uint64, dimensions int, encoded bool) []byte {
	values, squares := make([]float64, dimensions), 0.0
	for i := range values {
		values[i] = float64(int64(fold(seed+uint64(i)))) / (1 << 63)
		squares += values[i] * values[i]
	}
	length := math.Sqrt(squares)
	if encoded {
		raw := make([]byte, 0, 4*dimensions)
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(v/length)))
		}
		buf = append(buf, '"')
		buf = base64.StdEncoding.AppendEncode(buf, raw)
		return append(buf, '"')
	}
	buf = append(buf, '[')
	for i, v := range values {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = strconv.AppendFloat(buf, v/length, 'g', 7, 32)
	}
	return append(buf, ']')
}
