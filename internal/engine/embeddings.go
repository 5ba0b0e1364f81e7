package engine

import (
	"encoding/base64"
	"encoding/binary"
	json "encoding/json/v2"
	"math"
	"net/http"
	"strconv"
)

// Embeddings have this many dimensions unless the request says otherwise.
const (
	dimensionsDefault = 64
	dimensionsMax     = 4096
)

// embeddings is POST /v1/embeddings: prompts that are only prefilled. The vectors are unit length and depend on the
// prompt alone; they mean nothing.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, b *body) error {
	var input texts
	if len(b.Input) > 0 {
		if err := json.Unmarshal(b.Input, &input, readOptions); err != nil {
			return failf(http.StatusBadRequest, "BadRequestError", "input", "%v", err)
		}
	}
	prompts, err := s.plainPrompts(b, input, "input")
	if err != nil {
		return err
	}
	if _, err := b.choices(len(prompts)); err != nil {
		return err
	}
	for _, p := range prompts {
		if p.tokens > s.options.ContextMax {
			_, err := s.limits(b, p.tokens, 0)
			return err
		}
	}
	if b.Dimensions < 0 || b.Dimensions > dimensionsMax {
		return failf(http.StatusBadRequest, "BadRequestError", "dimensions", "dimensions must be between 1 and %d, got %d.", dimensionsMax, b.Dimensions)
	}
	f := &embeddingForm{
		prompts: prompts, id: newID(r, "embd-"), model: s.options.Model, created: s.start.Unix(),
		dimensions: b.Dimensions, base64: b.EncodingFormat == "base64",
	}
	if f.dimensions == 0 {
		f.dimensions = dimensionsDefault
	}
	j := s.newJob(prompts, 1, limits{}, false)
	f.job = j
	if err := s.submit(j); err != nil {
		return err
	}
	defer s.abort(j)
	for !j.finished() {
		if err := s.wait(r.Context(), j); err != nil {
			return err
		}
	}
	writeBytes(w, http.StatusOK, f.whole(nil))
	return nil
}

type embeddingForm struct {
	job        *job
	prompts    []prompt
	id, model  string
	created    int64
	dimensions int
	base64     bool
}

func (f *embeddingForm) whole(buf []byte) []byte {
	buf = append(buf, `{"id":"`+f.id+`","object":"list",`...)
	buf = number(buf, "created", int(f.created))
	buf = append(buf, `,"model":`+quote(f.model)+`,"data":[`...)
	for i, p := range f.prompts {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = number(append(buf, '{'), "index", i)
		buf = append(buf, `,"object":"embedding","embedding":`...)
		buf = f.vector(buf, p.hash)
		buf = append(buf, '}')
	}
	buf = append(buf, `],`...)
	buf = f.job.usage(1).append(buf)
	return append(buf, '}')
}

func (f *embeddingForm) vector(buf []byte, seed uint64) []byte {
	values, squares := make([]float64, f.dimensions), 0.0
	for i := range values {
		values[i] = float64(int64(fold(seed+uint64(i)))) / (1 << 63)
		squares += values[i] * values[i]
	}
	length := math.Sqrt(squares)
	if f.base64 {
		raw := make([]byte, 0, 4*f.dimensions)
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
