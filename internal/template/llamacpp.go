package template

import (
	"errors"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

// llamaCPP is what llama.cpp does otherwise than vLLM (its common/chat.cpp and tools/server): it looks what a template can do, by rendering
// it, and changes messages so that the template can take them. Where it does what cannot be known here, requests are refused.
type llamaCPP struct {
	noSystem bool // the template passes over system messages, which are then put into the next one
	thinks   bool // the prompt depends on enable_thinking, for which the server has a flag
	harmony  bool // developers keep their role
}

// What is looked for in the output of a template.
const (
	probeSystem = "PROBE-SYSTEM"
	probeUser   = "PROBE-USER"
)

// asLlamaCPP finds out about a template.
func (t *Template) asLlamaCPP(chat string) {
	render := func(body string) string {
		text, _ := t.Render(body, time.Time{})
		return text
	}
	user := `{"role":"user","content":"` + probeUser + `"}`
	t.llama = &llamaCPP{harmony: strings.Contains(chat, "<|channel|>")}
	t.parts = false
	if !strings.Contains(render(`{"messages":[`+user+`]}`), probeUser) {
		t.parts = true
	}
	noSystem := !strings.Contains(render(`{"messages":[{"role":"system","content":"`+probeSystem+`"},`+user+`]}`), probeSystem)
	think := func(more string) string { return render(`{"messages":[` + user + `]` + more + `}`) }
	thinks := think("") != think(`,"chat_template_kwargs":{"enable_thinking":true}`)
	t.llama.noSystem, t.llama.thinks = noSystem, thinks
}

// request changes a request as the server does before the template gets it.
func (l *llamaCPP) request(req *pyvalue.Dict) error {
	kwargs, _ := get(req, "chat_template_kwargs").(*pyvalue.Dict)
	told := false
	if kwargs != nil {
		_, told = kwargs.Get("enable_thinking")
	}
	list, _ := get(req, "messages").(*pyvalue.List)
	if list == nil || len(list.Items) == 0 {
		return errors.New("the request has no messages")
	}
	for i, item := range list.Items {
		m, _ := item.(*pyvalue.Dict)
		if m == nil {
			return errors.New("a message is no object")
		}
		if get(m, "role") == "developer" && !l.harmony {
			m.Set("role", "system")
		}
		if l.noSystem && i == 0 && get(m, "role") == "system" {
			return errors.New("a system message, which the template does not know: llama.cpp puts it into the next one")
		}
		if i == len(list.Items)-1 && get(m, "role") == "assistant" {
			return errors.New("a last message of the assistant, which llama.cpp continues in its own way")
		}
	}
	switch {
	case pyvalue.Truth(get(req, "continue_final_message")):
		return errors.New("continue_final_message, which llama.cpp does in its own way")
	case l.thinks && !told:
		return errors.New("a request without enable_thinking, for which llama.cpp has a flag")
	}
	return nil
}

// values takes away what llama.cpp does not give to templates, and of each tool what its own types do not hold.
func (l *llamaCPP) values(values map[string]any, req *pyvalue.Dict) {
	kwargs, _ := get(req, "chat_template_kwargs").(*pyvalue.Dict)
	for _, name := range []string{"documents", "reasoning_effort", "enable_thinking"} {
		delete(values, name)
		if kwargs != nil {
			if v, ok := kwargs.Get(name); ok {
				values[name] = v
			}
		}
	}
	if !pyvalue.Truth(values["add_generation_prompt"]) {
		delete(values, "add_generation_prompt")
	}
	list, _ := values["tools"].(*pyvalue.List)
	if list == nil {
		return
	}
	for i, item := range list.Items {
		function := get(item.(*pyvalue.Dict), "function").(*pyvalue.Dict)
		description, parameters := get(function, "description"), get(function, "parameters")
		if description == nil {
			description = ""
		}
		if parameters == nil {
			parameters = pyvalue.NewDict()
		}
		kept, whole := pyvalue.NewDict(), pyvalue.NewDict()
		kept.Set("name", get(function, "name"))
		kept.Set("description", description)
		kept.Set("parameters", parameters)
		whole.Set("type", "function")
		whole.Set("function", kept)
		list.Items[i] = whole
	}
}
