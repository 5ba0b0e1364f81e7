package prefix

import "encoding/binary"

// TokenRoot is the key in front of a prompt's first block of tokens: the base model, and the adapter's name or "". Keys of tokens and keys
// of prompt bytes never meet.
func (s Seed) TokenRoot(model, adapter string) Key {
	return s.Root([]byte("tokens"), []byte(model), []byte(adapter))
}

// NextTokens is the key of a block of tokens that follows parent. extra is what else the engine's cache tells blocks apart by, put together
// with AppendExtra: the cache salt in the first block, the images in those they cover. Blocks of another size have other keys, so chains
// for workers with several block sizes are made one by one.
func (s Seed) NextTokens(parent Key, tokens []uint32, extra []byte) Key {
	var few [stripeBytes]byte // 16 tokens, the usual block
	b := few[:0]
	for _, token := range tokens {
		b = binary.LittleEndian.AppendUint32(b, token)
	}
	key := s.Next(parent, b)
	if len(extra) > 0 {
		key = s.Next(key, extra)
	}
	return key
}

// AppendExtra adds one of a block's extra keys, in the engine's order. The result's length is no multiple of four, so that it is never
// taken for a block of tokens.
func AppendExtra(extra []byte, key string) []byte {
	extra = append(extra, 's')
	extra = binary.LittleEndian.AppendUint32(extra, uint32(len(key)))
	extra = append(extra, key...)
	return odd(extra)
}

// AppendExtraMedia adds a piece of media: the engine's hash of it, and at which of the block's tokens it begins, below 0 when it began in
// an earlier one.
func AppendExtraMedia(extra []byte, hash string, offset int64) []byte {
	extra = append(extra, 'm')
	extra = binary.LittleEndian.AppendUint32(extra, uint32(len(hash)))
	extra = append(extra, hash...)
	extra = binary.LittleEndian.AppendUint64(extra, uint64(offset))
	return odd(extra)
}

func odd(extra []byte) []byte {
	if len(extra)%4 == 0 {
		return append(extra, '.')
	}
	return extra
}
