package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/zmtp"
)

// exact refuses models that are named twice and places where no events can come from.
func (v *verdict) exact(c Config) {
	named := map[string]int{}
	for i, m := range c.Exact.Tokenizers {
		key := "exact.tokenizers[" + strconv.Itoa(i) + "]"
		if m.Model == "" || m.Path == "" {
			v.wrong(key, "needs both a model and a path: {model: llama-8b, path: /models/llama-8b}")
			continue
		}
		if first, twice := named[m.Model]; twice {
			v.wrong(key+".model", "%q is that of exact.tokenizers[%d] already", m.Model, first)
		}
		named[m.Model] = i
	}
	if e := c.Exact.Events; e != EventsAuto && e != EventsOff {
		v.endpoint("exact.events", e, strings.ReplaceAll(e, "{host}", "host"), "; or write auto or off")
	}
	for i, w := range c.Workers {
		key := "workers[" + strconv.Itoa(i) + "]"
		if w.Events != "" {
			v.endpoint(key+".events", w.Events, strings.TrimPrefix(w.Events, "bind+"), "")
		}
		if w.Replay != "" {
			v.endpoint(key+".replay", w.Replay, w.Replay, "")
			if w.Events == "" {
				v.wrong(key+".replay", "is set and events is not: there is nothing to replay")
			}
		}
		if (w.Events != "" || w.Replay != "") && w.Ranks > 1 {
			v.wrong(key+".events", "is one address for %d ranks, each of which has its own; leave it out, the engine tells them, or set exact.events", w.Ranks)
		}
	}
}

func (v *verdict) endpoint(key, value, endpoint, hint string) {
	if _, _, err := zmtp.Address(endpoint); err != nil {
		v.wrong(key, "%q is no address of cache events, such as tcp://gpu-1:5557: %v%s", value, err, hint)
	}
}

// ParseModelFiles reads MODEL=PATH.
func ParseModelFiles(text string) (ModelFiles, error) {
	model, path, ok := strings.Cut(text, "=")
	if !ok || model == "" || path == "" {
		return ModelFiles{}, fmt.Errorf("%q is not MODEL=PATH, such as llama-8b=/models/llama-8b (flag --tokenizer)", text)
	}
	return ModelFiles{model, path}, nil
}
