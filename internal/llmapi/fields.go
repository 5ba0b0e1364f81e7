package llmapi

// The top-level fields that enter the prompt, in the order in which templates put them there: tools and system prompt
// first, then what steers the template, then the conversation. What a template does with each differs; the order only
// has to be the same for every body.
const (
	sectionTools = iota
	sectionFunctions
	sectionSystem
	sectionTemplate
	sectionTemplateArgs
	sectionReasoningEffort
	sectionReasoning
	sectionThinking
	sectionToolChoice
	sectionFunctionCall
	sectionLoRA
	sectionLoRAPath
	sectionMediaArgs
	sectionMediaProcessor
	sectionSpecialTokens
	sectionStoredPrompt
	sectionQuery
	sectionDocuments
	sectionMessages
	sectionPrompt
	sectionInput
	sectionInputs
	sectionText
	sectionTexts
	sectionText1
	sectionText2
	sectionContent
	sectionCount
)

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

// walker scans a request's body and fills r on the way, in one pass.
type walker struct {
	scanner
	r     *Request
	wrong *FieldError
}

func (w *walker) refuse(at int, field, want string) int {
	w.wrong = &FieldError{Field: field, Want: want, Offset: at}
	return -1
}

// top walks the body's own object. Only the fields that routing knows are looked into; all others are skipped.
func (w *walker) top(i int) int {
	m := w.object(i, 0)
	for m.next() {
		end, known := w.control(m.key, m.val)
		if !known {
			end = w.section(m.key, m.val)
		}
		m.i = end
	}
	return m.i
}

// control reads the fields that steer a request without entering its prompt.
func (w *walker) control(key []byte, val int) (end int, known bool) {
	r := w.r
	switch string(key) {
	case "model":
		return w.model(val), true
	case "stream":
		end = w.value(val, 1)
		r.Stream = w.peek(val) == 't'
	case "stream_options":
		return w.streamOptions(val), true
	case "max_completion_tokens":
		return w.integer(val, &r.limits[limitCompletion]), true
	case "max_output_tokens":
		return w.integer(val, &r.limits[limitOutput]), true
	case "max_tokens":
		return w.integer(val, &r.limits[limitTokens]), true
	case "n_predict":
		return w.integer(val, &r.limits[limitPredict]), true
	case "priority":
		return w.integer(val, &r.Priority), true
	case "n":
		end = w.integer(val, &r.N)
		r.N = max(r.N, 1)
	case "cache_salt":
		return w.name(val, 1, nameSalt), true
	case "prompt_cache_key":
		return w.name(val, 1, nameCacheKey), true
	case "user":
		return w.name(val, 1, nameUser), true
	case "previous_response_id":
		return w.name(val, 1, namePrevious), true
	case "conversation":
		return w.nameIn(val, nameConversation, "id"), true
	case "metadata":
		return w.nameIn(val, nameMetadataUser, "user_id"), true
	default:
		return 0, false
	}
	return end, true
}

func (w *walker) model(val int) int {
	end := w.value(val, 1)
	if end < 0 {
		return -1
	}
	w.r.ModelSpan = absent
	switch w.b[val] {
	case '"':
		w.r.ModelSpan = Span{val, end}
	case 'n':
	default:
		return w.refuse(val, "model", "a string")
	}
	return end
}

// integer reads a whole number into n, 0 for anything else: the engine judges it. What is too large is as large as
// counts go.
func (w *walker) integer(val int, n *int) int {
	end := w.value(val, 1)
	if end > 0 {
		*n = clamp(w.b[val:end])
	}
	return end
}

// name notes the contents of a string; any other value, null included, is no name.
func (w *walker) name(val, depth, which int) int {
	end := w.value(val, depth)
	w.r.names[which] = absent
	if end > 0 && w.b[val] == '"' {
		w.r.names[which] = Span{val + 1, end - 1}
	}
	return end
}

// nameIn notes a string, or the string under a key of an object.
func (w *walker) nameIn(val, which int, key string) int {
	if w.peek(val) != '{' {
		return w.name(val, 1, which)
	}
	w.r.names[which] = absent
	m := w.object(val, 1)
	for m.next() {
		if string(m.key) == key {
			m.i = w.name(m.val, m.depth, which)
		} else {
			m.i = w.value(m.val, m.depth)
		}
	}
	return m.i
}

func (w *walker) streamOptions(val int) int {
	r := w.r
	r.IncludeUsage = false
	r.options = streamOptions{include: absent, null: w.peek(val) == 'n', object: w.peek(val) == '{', empty: true}
	if !r.options.object {
		end := w.value(val, 1)
		r.StreamOptions = Span{val, end}
		return end
	}
	m := w.object(val, 1)
	for m.next() {
		m.i = w.value(m.val, m.depth)
		r.options.empty = false
		yes := w.peek(m.val) == 't'
		switch string(m.key) {
		case "include_usage":
			r.options.include = Span{m.val, m.i}
			r.IncludeUsage = yes
		case "continuous_usage_stats":
			r.options.continuous = yes
		}
	}
	r.StreamOptions = Span{val, m.i}
	return m.i
}

// section reads a field that enters the prompt, and skips all others. A field that comes again replaces what it said
// before; null is as if it had not come.
func (w *walker) section(key []byte, val int) int {
	which, how := place(w.r.API, key)
	if how == shapeNone {
		return w.value(val, 1)
	}
	r := w.r
	sec := &r.sections[which]
	*sec = section{from: len(r.scratch)}
	end := 0
	switch {
	case w.peek(val) == 'n':
		end = w.value(val, 1)
	case how == shapeRaw:
		end = w.raw(val, 1)
	case how == shapeSystem:
		end = w.content(val, 1)
	case how == shapeMessages:
		end = w.messages(val, string(key))
	case how == shapeItems:
		end = w.items(val)
	default:
		end = w.inputs(val, 1, sec, key)
	}
	some := len(r.scratch) > sec.from
	if which == sectionTools {
		r.Tools = absent
		if some {
			r.Tools = Span{val, end}
		}
	}
	if some && (which == sectionTools || how == shapeSystem) {
		w.mark(MessageEnd, end)
	}
	sec.to = len(r.scratch)
	return end
}

// place finds the section of a field. Fields that change only how the answer is sampled have none.
func place(api API, key []byte) (int, shape) {
	switch string(key) {
	case "tools":
		return sectionTools, shapeRaw
	case "functions":
		return sectionFunctions, shapeRaw
	case "system", "instructions":
		return sectionSystem, shapeSystem
	case "chat_template":
		return sectionTemplate, shapeRaw
	case "chat_template_kwargs":
		return sectionTemplateArgs, shapeRaw
	case "reasoning_effort":
		return sectionReasoningEffort, shapeRaw
	case "reasoning":
		return sectionReasoning, shapeRaw
	case "thinking":
		return sectionThinking, shapeRaw
	case "tool_choice":
		return sectionToolChoice, shapeRaw
	case "function_call":
		return sectionFunctionCall, shapeRaw
	case "lora":
		return sectionLoRA, shapeRaw
	case "lora_path":
		return sectionLoRAPath, shapeRaw
	case "media_io_kwargs":
		return sectionMediaArgs, shapeRaw
	case "mm_processor_kwargs":
		return sectionMediaProcessor, shapeRaw
	case "add_special_tokens":
		return sectionSpecialTokens, shapeRaw
	case "messages":
		return sectionMessages, shapeMessages
	}
	return placeInput(api, key)
}

// placeInput finds the section of a prompt or input. For an API that we have no shape for, every name that engines
// use for text is taken: rerank, score, classify, tokenize, infill, generate.
func placeInput(api API, key []byte) (int, shape) {
	other := api == Other
	switch string(key) {
	case "prompt":
		if api == Responses {
			return sectionStoredPrompt, shapeRaw
		}
		if api == Completions || other {
			return sectionPrompt, shapeInputs
		}
	case "input":
		if api == Responses {
			return sectionInput, shapeItems
		}
		if api == Embeddings || other {
			return sectionInput, shapeInputs
		}
	case "documents":
		if other {
			return sectionDocuments, shapeInputs
		}
		return sectionDocuments, shapeRaw
	}
	if !other {
		return 0, shapeNone
	}
	switch string(key) {
	case "query", "queries", "input_prefix":
		return sectionQuery, shapeInputs
	case "inputs":
		return sectionInputs, shapeInputs
	case "text":
		return sectionText, shapeInputs
	case "texts":
		return sectionTexts, shapeInputs
	case "text_1":
		return sectionText1, shapeInputs
	case "text_2":
		return sectionText2, shapeInputs
	case "content":
		return sectionContent, shapeInputs
	}
	return 0, shapeNone
}
