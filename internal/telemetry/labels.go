package telemetry

import "bytes"

// labels are the label values that matter, still escaped; nil when absent. None of them needs unescaping to be compared: an engine's
// model name with a quote or a backslash in it will not match, and then counts as the page's only name.
type labels struct {
	modelName, blockSize, gpuBlocks, kvTokens []byte
	engine, dpRank, tpRank, ppRank, source    []byte
	gpu                                       []byte
}

// parse reads what follows "{" and returns what follows "}".
func (l *labels) parse(b []byte) (rest []byte, ok bool) {
	for {
		b = bytes.TrimLeft(b, " \t,")
		if len(b) > 0 && b[0] == '}' {
			return b[1:], true
		}
		eq := bytes.IndexByte(b, '=')
		if eq < 0 {
			return nil, false
		}
		name := bytes.TrimRight(b[:eq], " \t")
		b = bytes.TrimLeft(b[eq+1:], " \t")
		if len(b) == 0 || b[0] != '"' {
			return nil, false
		}
		end := 1
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(b) {
			return nil, false
		}
		value := b[1:end]
		switch string(name) {
		case "model_name":
			l.modelName = value
		case "engine":
			l.engine = value
		case "dp_rank":
			l.dpRank = value
		case "tp_rank":
			l.tpRank = value
		case "pp_rank":
			l.ppRank = value
		case "gpu", "gpu_id":
			l.gpu = value
		case "cache_source":
			l.source = value
		case "block_size", "page_size":
			l.blockSize = value
		case "num_gpu_blocks", "num_pages":
			l.gpuBlocks = value
		case "kv_cache_size_tokens":
			l.kvTokens = value
		}
		b = b[end+1:]
	}
}
