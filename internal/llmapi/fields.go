package llmapi

import "github.com/warmpath/warmpath/internal/jsontext"

// shape says how a field's value becomes parts.
type shape uint8

const (
	shapeNone     shape = iota // not part of the prompt
	shapeRaw                   // the value as it is
	shapeSystem                // a string or content blocks, one message
	shapeMessages              // a list of messages
	shapeItems                 // Responses: a string or a list of items
	shapeInputs                // a string, token ids, or a list of either
)

// apis is a set of APIs, a bit each.
type apis uint16

const (
	every     = ^apis(0)
	other     = apis(1 << Other)
	anthropic = apis(1<<Messages | 1<<CountTokens)
)

// places lists the top-level fields that enter the prompt, in the order in which templates put them there: tools and
// system prompt first, then what steers the template, then the conversation. What a template does with each differs;
// the order only has to be the same for every body. Fields that change how the answer is sampled are not here. For an
// API that we have no shape for, every name is taken that engines use for text: rerank, score, tokenize, infill.
var places = [...]struct {
	key  string
	how  shape
	apis apis
}{
	{"tools", shapeRaw, every},
	{"functions", shapeRaw, every},
	{"system", shapeSystem, anthropic | other},
	{"instructions", shapeSystem, every},
	{"chat_template", shapeRaw, every},
	{"chat_template_kwargs", shapeRaw, every},
	{"reasoning_effort", shapeRaw, every},
	{"reasoning", shapeRaw, every},
	{"thinking", shapeRaw, every},
	{"tool_choice", shapeRaw, every},
	{"function_call", shapeRaw, every},
	{"lora", shapeRaw, every},
	{"lora_path", shapeRaw, every},
	{"media_io_kwargs", shapeRaw, every},
	{"mm_processor_kwargs", shapeRaw, every},
	{"add_special_tokens", shapeRaw, every},
	{"prompt", shapeRaw, 1 << Responses}, // a stored prompt's id and variables
	{"documents", shapeRaw, ^other},
	{"messages", shapeMessages, every},
	{"input", shapeItems, 1 << Responses},
	{"query", shapeInputs, other},
	{"queries", shapeInputs, other},
	{"input_prefix", shapeInputs, other},
	{"prompt", shapeInputs, 1<<Completions | other},
	{"input", shapeInputs, 1<<Embeddings | other},
	{"inputs", shapeInputs, other},
	{"documents", shapeInputs, other},
	{"text", shapeInputs, other},
	{"texts", shapeInputs, other},
	{"text_1", shapeInputs, other},
	{"text_2", shapeInputs, other},
	{"content", shapeInputs, other},
}

const sectionTools = 0 // its place

// place finds a field's place; shapeNone when it has none.
func place(api API, key []byte) (section int, how shape) {
	for i := range places {
		p := &places[i]
		if len(p.key) == len(key) && p.apis>>api&1 == 1 && p.key == string(key) {
			return i, p.how
		}
	}
	return 0, shapeNone
}

// walker scans a request's body and fills r on the way, in one pass.
type walker struct {
	jsontext.Scanner
	r     *Request
	wrong *FieldError
	needs Needs // of the field being read
}

// refuse names the field whose value at val has the wrong type, unless that is not JSON at all.
func (w *walker) refuse(val, depth int, field, want string) int {
	if w.Value(val, depth) >= 0 {
		w.wrong = &FieldError{Field: field, Want: want, Offset: val}
	}
	return -1
}

// top walks the body's own object. Only the fields that routing knows are looked into; all others are skipped.
func (w *walker) top(i int) int {
	m := w.Object(i, 0)
	for m.Next() {
		end, known := w.control(m.Key, m.Val)
		if !known {
			end = w.section(m.Key, m.Val)
		}
		m.I = end
	}
	return m.I
}

// control reads the fields that steer a request without entering its prompt.
func (w *walker) control(key []byte, val int) (end int, known bool) {
	r := w.r
	switch string(key) {
	case "model":
		return w.model(val), true
	case "stream":
		end = w.Value(val, 1)
		r.Stream = w.Peek(val) == 't'
	case "stream_options":
		return w.streamOptions(val), true
	case "max_completion_tokens":
		return w.integer(val, &r.limits[0]), true
	case "max_output_tokens":
		return w.integer(val, &r.limits[1]), true
	case "max_tokens":
		return w.integer(val, &r.limits[2]), true
	case "n_predict":
		return w.integer(val, &r.limits[3]), true
	case "priority":
		return w.priority(val), true
	case "n":
		end = w.integer(val, &r.N)
		r.N = max(r.N, 1)
	case "best_of":
		return w.integer(val, &r.bestOf), true
	case "prompt_logprobs":
		return w.given(val, &r.scores), true
	case "logprobs":
		return w.given(val, &r.logprobs), true
	case "echo":
		end = w.Value(val, 1)
		r.echo = w.Peek(val) == 't'
	case "cache_salt":
		return w.name(val, nameSalt), true
	case "prompt_cache_key":
		return w.name(val, nameCacheKey), true
	case "user":
		return w.name(val, nameUser), true
	case "previous_response_id":
		return w.name(val, namePrevious), true
	case "conversation":
		return w.nameIn(val, nameConversation, "id"), true
	case "metadata":
		return w.nameIn(val, nameMetadataUser, "user_id"), true
	default:
		return 0, false
	}
	return end, true
}

// given notes whether a field says anything: null, false and no field are the same.
func (w *walker) given(val int, is *bool) int {
	c := w.Peek(val)
	*is = c != 'n' && c != 'f'
	return w.Value(val, 1)
}

func (w *walker) model(val int) int {
	end := w.Value(val, 1)
	w.r.ModelSpan = absent
	if c := w.Peek(val); c == '"' {
		w.r.ModelSpan = span(val, end)
	} else if c != 'n' {
		return w.refuse(val, 1, "model", "a string")
	}
	return end
}

// integer reads a whole number into n, 0 for anything else: the engine judges it. What is too large is as large as
// counts go.
func (w *walker) integer(val int, n *int) int {
	end := w.Value(val, 1)
	if end > 0 {
		f, _ := jsontext.Whole(w.B[val:end])
		*n = int(max(-countMax, min(countMax, f)))
	}
	return end
}

// priority notes a number or a name, and where it stands.
func (w *walker) priority(val int) int {
	w.name(val, namePriority)
	end := w.integer(val, &w.r.Priority)
	w.r.PrioritySpan = absent
	if w.Peek(val) != 'n' {
		w.r.PrioritySpan = span(val, end)
	}
	return end
}

// name notes the contents of a string; any other value, null included, is no name.
func (w *walker) name(val, which int) int {
	end := w.Value(val, 1)
	w.r.names[which] = absent
	if end > 0 && w.B[val] == '"' {
		w.r.names[which] = span(val+1, end-1)
	}
	return end
}

// nameIn notes a string, or the string under a key of an object.
func (w *walker) nameIn(val, which int, key string) int {
	if w.Peek(val) != '{' {
		return w.name(val, which)
	}
	found := absent
	end := w.Pick(val, 1, jsontext.Want(key, &found))
	w.r.names[which] = absent
	if found.Found() && w.B[found.Start] == '"' {
		w.r.names[which] = w.Word(found)
	}
	return end
}

func (w *walker) streamOptions(val int) int {
	include, continuous := absent, absent
	end := w.Pick(val, 1, jsontext.Want("include_usage", &include), jsontext.Want("continuous_usage_stats", &continuous))
	yes := func(v Span) bool { return v.Found() && w.B[v.Start] == 't' }
	w.r.StreamOptions, w.r.IncludeUsage = span(val, end), yes(include)
	w.r.options = streamOptions{include: include, continuous: yes(continuous), kind: w.Peek(val)}
	if w.r.options.kind == '{' && w.Peek(w.Space(val+1)) == '}' {
		w.r.options.kind = 'n'
	}
	return end
}

// section reads a field that enters the prompt, and skips all others. A field that comes again replaces what it said
// before; null is as if it had not come.
func (w *walker) section(key []byte, val int) int {
	which, how := place(w.r.API, key)
	if how == shapeNone {
		return w.unplaced(key, val)
	}
	r := w.r
	sec := &r.sections[which]
	*sec = section{from: int32(len(r.scratch))}
	end := 0
	w.needs = 0
	switch {
	case w.Peek(val) == 'n':
		end = w.Value(val, 1)
	case how == shapeRaw:
		end = w.raw(val, 1)
	case how == shapeSystem:
		end = w.content(val, 1)
	case how == shapeMessages:
		end = w.messages(val, "messages")
	case how == shapeItems:
		end = w.items(val)
	default:
		prompts, ids := 0, 0
		end, prompts, ids = w.inputs(val, 1, places[which].key)
		sec.prompts, sec.tokens = int32(prompts), int32(ids)
	}
	some := len(r.scratch) > int(sec.from)
	if some && how == shapeRaw {
		w.needs |= w.placed(places[which].key, span(val, end))
	}
	sec.needs = w.needs
	if which == sectionTools {
		r.Tools = absent
		if some {
			r.Tools = span(val, end)
		}
	}
	if some && (which == sectionTools || how == shapeSystem) {
		w.mark(MessageEnd, end)
	}
	sec.to = int32(len(r.scratch))
	return end
}
