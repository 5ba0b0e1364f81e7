package modelfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

const ggufMagic = "GGUF"

// Bounds of a .gguf file's header. What is beyond is an error that names the bound; memory grows only with what was really read.
const (
	headerBytesMax = 128 << 20 // all metadata; that of gemma-3, with 262,144 tokens, has 11 MB
	keysMax        = 1 << 16
	keyBytesMax    = 1 << 16
	stringBytesMax = 4 << 20
	elementsMax    = 1 << 23 // of an array that is kept
	nestingMax     = 4       // arrays within arrays
)

// The kinds of metadata values.
const (
	kindUint8 = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

// kindBytes is how long a value is; 0 for those that tell it themselves.
var kindBytes = [...]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// header is the metadata of a .gguf file, as far as the tokenizer and the template are in it.
type header struct {
	texts    map[string]string
	numbers  map[string]uint64 // integers, as they are in two's complement, and booleans
	lists    map[string][]string
	floats   map[string][]float32
	integers map[string][]int32
}

// kept says whether a value is of use here.
func kept(key string) bool {
	return strings.HasPrefix(key, "tokenizer.") || key == "general.architecture" || key == "general.name"
}

// ggufReader reads a header and counts what it has read.
type ggufReader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	read  int64
	room  [8]byte
}

// readHeader reads what stands behind the magic: version, number of tensors, number of pairs, the pairs. Tensors are left alone.
func readHeader(file io.Reader) (*header, error) {
	r := &ggufReader{in: bufio.NewReaderSize(file, 64<<10), order: binary.LittleEndian}
	version, err := r.uint(4)
	if err != nil {
		return nil, err
	}
	if version&0xffff == 0 {
		r.order = binary.BigEndian
		version = uint64(binary.BigEndian.Uint32(r.room[:4]))
	}
	if version != 2 && version != 3 {
		return nil, fmt.Errorf("a gguf file of version %d: 2 and 3 are known", version)
	}
	if _, err = r.uint(8); err != nil {
		return nil, err
	}
	keys, err := r.uint(8)
	if err != nil {
		return nil, err
	}
	if keys > keysMax {
		return nil, fmt.Errorf("%d keys, more than %d", keys, keysMax)
	}
	h := &header{map[string]string{}, map[string]uint64{}, map[string][]string{}, map[string][]float32{}, map[string][]int32{}}
	seen := map[string]bool{}
	for range keys {
		key, err := r.string(keyBytesMax)
		if err != nil {
			return nil, fmt.Errorf("a key: %w", err)
		}
		if kept(key) && seen[key] {
			return nil, fmt.Errorf("the key %.100q is there twice", key)
		}
		seen[key] = kept(key)
		if err := r.value(h, key); err != nil {
			return nil, fmt.Errorf("the value of %.100q: %w", key, err)
		}
	}
	return h, nil
}

// value reads the kind and the value of a key.
func (r *ggufReader) value(h *header, key string) error {
	kind, err := r.uint(4)
	switch {
	case err != nil:
		return err
	case kind == kindArray:
		return r.array(h, key)
	case kind >= uint64(len(kindBytes)):
		return fmt.Errorf("is of the kind %d, which there is not", kind)
	case !kept(key):
		return r.skip(kind, 1)
	case kind == kindString:
		h.texts[key], err = r.string(stringBytesMax)
		return err
	}
	size := kindBytes[kind]
	v, err := r.uint(size)
	if kind == kindInt8 || kind == kindInt16 || kind == kindInt32 {
		shift := 64 - 8*size
		v = uint64(int64(v<<shift) >> shift)
	}
	if kind != kindFloat32 && kind != kindFloat64 {
		h.numbers[key] = v
	}
	return err
}

func (r *ggufReader) array(h *header, key string) error {
	kind, n, err := r.arrayHead()
	if err != nil {
		return err
	}
	if !kept(key) || kind != kindString && kind != kindFloat32 && kind != kindInt32 && kind != kindUint32 {
		return r.skipArray(kind, n, 1)
	}
	if n > elementsMax {
		return fmt.Errorf("has %d elements, more than %d", n, elementsMax)
	}
	if kind == kindString {
		h.lists[key] = []string{}
	}
	for range n {
		var v uint64
		switch kind {
		case kindString:
			var text string
			if text, err = r.string(stringBytesMax); err == nil {
				h.lists[key] = append(h.lists[key], text)
			}
		case kindFloat32:
			if v, err = r.uint(4); err == nil {
				h.floats[key] = append(h.floats[key], math.Float32frombits(uint32(v)))
			}
		default:
			if v, err = r.uint(4); err == nil {
				h.integers[key] = append(h.integers[key], int32(v))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *ggufReader) arrayHead() (kind, n uint64, err error) {
	if kind, err = r.uint(4); err != nil {
		return 0, 0, err
	}
	if kind >= uint64(len(kindBytes)) {
		return 0, 0, fmt.Errorf("is an array of the kind %d, which there is not", kind)
	}
	n, err = r.uint(8)
	return kind, n, err
}

func (r *ggufReader) skipArray(kind, n uint64, depth int) error {
	if kind != kindArray {
		return r.skip(kind, n)
	}
	if depth == nestingMax {
		return fmt.Errorf("has arrays in arrays %d deep", nestingMax)
	}
	for range n {
		kind, n, err := r.arrayHead()
		if err == nil {
			err = r.skipArray(kind, n, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skip passes over n values of a kind that is no array.
func (r *ggufReader) skip(kind, n uint64) error {
	if kind == kindString {
		for range n {
			size, err := r.uint(8)
			if err == nil {
				err = r.discard(size)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if n > headerBytesMax {
		return errLong
	}
	return r.discard(n * uint64(kindBytes[kind]))
}

var errLong = fmt.Errorf("the metadata has more than %d bytes", headerBytesMax)

func (r *ggufReader) discard(n uint64) error {
	if n > headerBytesMax || r.read+int64(n) > headerBytesMax {
		return errLong
	}
	r.read += int64(n)
	done, err := r.in.Discard(int(n))
	return cutOff(done, int(n), err)
}

func (r *ggufReader) uint(size int64) (uint64, error) {
	room := r.room[:size]
	if err := r.fill(room); err != nil {
		return 0, err
	}
	switch size {
	case 1:
		return uint64(room[0]), nil
	case 2:
		return uint64(r.order.Uint16(room)), nil
	case 4:
		return uint64(r.order.Uint32(room)), nil
	}
	return r.order.Uint64(room), nil
}

func (r *ggufReader) fill(room []byte) error {
	if r.read+int64(len(room)) > headerBytesMax {
		return errLong
	}
	r.read += int64(len(room))
	n, err := io.ReadFull(r.in, room)
	return cutOff(n, len(room), err)
}

// string reads a length and as many bytes, at most max. Room is made for what has come.
func (r *ggufReader) string(max uint64) (string, error) {
	size, err := r.uint(8)
	if err != nil {
		return "", err
	}
	if size > max {
		return "", fmt.Errorf("a text of %d bytes, more than %d", size, max)
	}
	const step = 64 << 10
	var text []byte
	for left := int(size); left > 0; {
		n := min(left, step)
		text = append(text, make([]byte, n)...)
		if err := r.fill(text[len(text)-n:]); err != nil {
			return "", err
		}
		left -= n
	}
	return string(text), nil
}

// cutOff makes an error that says so of a file that ends too early.
func cutOff(got, want int, err error) error {
	if got < want && (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errors.New("the file ends within its metadata")
	}
	return err
}
