package intake

import (
	"net/url"
	"strings"
)

// Kind is what a path means to routing.
type Kind struct {
	Generates bool // it makes tokens, and its cost is estimated like a completion's
	Warms     bool // the engine computes the text, so it may be found in its cache later
}

// native lists the inference paths that engines serve, under /v1 or not. It is a list of what may pass: everything else outside /v1/
// is 404, because what engines have there (metrics, slots, properties, profiling, sleep, weights, shutdown) is for operators, and the
// data port is for clients. Where it stands under both, an entry without /v1 covers both.
var native = map[string]Kind{
	// The OpenAI paths, which llama.cpp and others also serve without /v1.
	"/chat/completions": {Generates: true, Warms: true},
	"/completions":      {Generates: true, Warms: true},
	"/embeddings":       {Warms: true},
	"/responses":        {Generates: true, Warms: true},
	// Scores and vectors: vLLM, SGLang, llama.cpp. The Cohere forms are under /v2.
	"/rerank":     {Warms: true},
	"/v2/rerank":  {Warms: true},
	"/reranking":  {Warms: true},
	"/score":      {Warms: true},
	"/classify":   {Warms: true},
	"/pooling":    {Warms: true},
	"/embedding":  {Warms: true},
	"/v2/embed":   {Warms: true},
	"/encode":     {Warms: true},
	"/tokenize":   {},
	"/detokenize": {},
	// llama.cpp.
	"/completion":     {Generates: true, Warms: true},
	"/infill":         {Generates: true, Warms: true},
	"/apply-template": {},
	// SGLang and vLLM with token ids, TensorRT-LLM's bench server.
	"/generate":              {Generates: true, Warms: true},
	"/inference/v1/generate": {Generates: true, Warms: true},
	// vLLM renders a request without running it.
	"/chat/completions/render": {},
	"/completions/render":      {},
	// Ollama.
	"/api/chat":       {Generates: true, Warms: true},
	"/api/generate":   {Generates: true, Warms: true},
	"/api/embed":      {Warms: true},
	"/api/embeddings": {Warms: true},
	// Sound and pictures.
	"/audio/transcriptions": {},
	"/audio/translations":   {},
	"/audio/speech":         {},
	"/images/generations":   {},
	"/images/edits":         {},
	"/images/variations":    {},
}

// operators are paths under /v1/ that change or reveal an engine's own state.
var operators = map[string]bool{
	"/v1/load_lora_adapter": true, "/v1/unload_lora_adapter": true, "/v1/loads": true, "/v1/metrics": true, "/v1/health": true,
}

// Way tells whether a request path may pass to a worker, and what it means. Anything under /v1/ passes unless it is an operator's; what
// is not in the table there may hold text that warms a cache.
func Way(path string) (k Kind, ok bool) {
	path = strings.TrimSuffix(path, "/")
	if crooked(path) {
		return Kind{}, false
	}
	bare := path
	if strings.HasPrefix(path, "/v1/") {
		bare = path[len("/v1"):]
	}
	if k, ok = native[bare]; ok {
		return k, true
	}
	return Kind{Warms: true}, len(bare) < len(path) && !operators[path]
}

// crooked says that a path means another one to servers that tidy it up: /v1/../metrics would pass here and be /metrics there; and that it
// ends early for those to which a NUL is an end.
func crooked(path string) bool {
	return strings.ContainsRune(path, 0) || strings.Contains(path, "//") || strings.Contains(path, "/./") || strings.Contains(path, "/../") || strings.ContainsRune(path, '\\') ||
		strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..")
}

// Target is the client's own path and query. net/url lets a bare # pass in a query, where it means nothing to a server.
func Target(u *url.URL) string { return strings.ReplaceAll(u.RequestURI(), "#", "%23") }
