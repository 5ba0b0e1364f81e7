package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// urgent is a chat that says its own priority, as JSON.
func urgent(unique, priority string) string {
	return fmt.Sprintf(`{"model":"m","priority":%s,"messages":[{"role":"user","content":%q}]}`, priority, unique)
}

func TestFLW06ABodysPriorityOrdersThoseWhoWaitAsFarAsItsSenderMay(t *testing.T) {
	h := newHouse(t, 1, keyed(t, "    classes: [interactive, batch]\n"))
	search, agents := []string{"X-Api-Key", searchKey}, []string{"X-Api-Key", agentsKey}
	first := h.ask(t.Context(), chat("first", false), search...)
	h.inside(1, 0)
	var all []<-chan reply
	for i, c := range []struct {
		body string
		key  []string
	}{
		{urgent("5 batch by number", "3"), search},
		{urgent("3 usual", "0"), agents},
		{urgent("3 may not", "-4"), agents},
		{urgent("1 urgent by number", "-1"), search},
		{urgent("1 urgent by name", `"interactive"`), search},
		{urgent("3 no such class", `"now"`), search},
	} {
		all = append(all, h.ask(t.Context(), c.body, c.key...))
		h.inside(1, i+1)
	}
	q := h.state().Queue
	if q.Classes[0].Waiting != 2 || q.Classes[1].Waiting != 3 || q.Classes[2].Waiting != 1 {
		t.Errorf("%+v", q.Classes)
	}
	h.all()
	for _, answer := range append(all, first) {
		if r := <-answer; r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	order := ""
	for _, words := range h.served()[1:] {
		order += words[:1]
	}
	if order != "113335" {
		t.Errorf("served in the order %s: %v", order, h.served())
	}
	for _, c := range h.w.calls()[1:] { // nothing of a body is changed that engines are not told to read
		if !strings.Contains(string(c.body), `"priority":`) {
			t.Errorf("the worker got %s", c.body)
		}
	}
}

func TestABodysPriorityThatGoesTooFarIsRefusedWhereThatIsWanted(t *testing.T) {
	w := newWorker(t, nil)
	keys := keyed(t, "    classes: [batch]\n")
	rt := start(t, func(c *config.Config) { keys(c); c.Queue.BodyPriority = "refuse" }, w)
	for body, status := range map[string]int{urgent("x", "-1"): 403, urgent("x", `"interactive"`): 403, urgent("x", `"now"`): 403, urgent("x", "0"): 200, urgent("x", "9"): 200, urgent("x", `"batch"`): 200, urgent("x", "null"): 200} {
		r := rt.post("/v1/chat/completions", body, "X-Api-Key", searchKey)
		if r.status != status {
			t.Errorf("%s: %d %s, want %d", body, r.status, r.body, status)
		}
		if status == 403 && (!strings.Contains(r.body, `"param":"priority"`) || !strings.Contains(r.body, "standard, batch") || !strings.Contains(r.body, "queue.body_priority")) {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	if r := rt.post("/v1/messages", urgent("x", "-1"), "X-Api-Key", searchKey); r.status != 403 || !strings.Contains(r.body, `"type":"permission_error"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// engine has a worker tell who it is.
func (w *worker) engine(pages map[string]string) *worker {
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		page, known := pages[r.URL.Path]
		if !known {
			http.NotFound(out, r)
			return
		}
		fmt.Fprint(out, page)
	})
	return w
}

func TestEnginesThatGoByPrioritiesAreToldTheClass(t *testing.T) {
	vllm := map[string]string{"/v1/models": signedBy("vllm")}
	sglang := func(settings string) map[string]string {
		return map[string]string{"/v1/models": signedBy("sglang"), "/get_server_info": `{"version":"0.5.3"` + settings + `}`}
	}
	const plain = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	set := func(n string) string { return strings.TrimSuffix(plain, "}") + `,"priority":` + n + "}" }
	for _, c := range []struct {
		name                     string
		pages                    map[string]string
		off                      bool
		usual, urgent, late, own string // what becomes of a plain body, by class, and of one that asks for more than it may
	}{
		{"vLLM", vllm, false, plain, set("-1"), set("1"), urgent("x", "0")},
		{"SGLang with priorities", sglang(`,"enable_priority_scheduling":true`), false, set("0"), set("1"), set("-1"), urgent("x", "0")},
		{"SGLang with the lowest first", sglang(`,"enable_priority_scheduling":true,"schedule_low_priority_values_first":true`), false, plain, set("-1"), set("1"), urgent("x", "0")},
		{"SGLang without", sglang(``), false, plain, plain, plain, urgent("x", "-9")},
		{"another engine", map[string]string{"/v1/models": signedBy("somebody")}, false, plain, plain, plain, urgent("x", "-9")},
		{"vLLM, not told", vllm, true, plain, plain, plain, urgent("x", "-9")},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorker(t, nil).engine(c.pages)
			keys := keyed(t, "    classes: [interactive, batch]\n")
			rt := start(t, func(o *config.Config) { keys(o); o.Queue.EnginePriority = !c.off }, w)
			for _, r := range []reply{
				rt.post("/v1/chat/completions", plain, "X-Api-Key", searchKey),
				rt.post("/v1/chat/completions", plain, "X-Api-Key", searchKey, "X-Warmpath-Class", "interactive"),
				rt.post("/v1/chat/completions", plain, "X-Api-Key", searchKey, "X-Warmpath-Class", "batch"),
				rt.post("/v1/chat/completions", urgent("x", "-9"), "X-Api-Key", agentsKey),
				rt.post("/v1/messages", plain, "X-Api-Key", searchKey, "X-Warmpath-Class", "batch"),
			} {
				if r.status != http.StatusOK {
					t.Fatalf("%d %s", r.status, r.body)
				}
			}
			for i, want := range []string{c.usual, c.urgent, c.late, c.own, plain} {
				if got := string(w.calls()[i].body); got != want {
					t.Errorf("request %d: the engine got\n%s, want\n%s", i, got, want)
				}
			}
		})
	}
}

func TestAUT01KeysInAVariableOfTheEnvironmentAreKeys(t *testing.T) {
	t.Setenv("WARMPATH_TEST_KEYS", "search="+searchKey+",agents="+agentsKey)
	rt := start(t, func(c *config.Config) { c.Tenants.KeysEnv = "WARMPATH_TEST_KEYS" }, newWorker(t, nil))
	for key, status := range map[string]int{searchKey: 200, agentsKey: 200, oldKey: 401, "": 401} {
		if r := rt.post("/v1/chat/completions", chat("x", false), "X-Api-Key", key); r.status != status {
			t.Errorf("%q: %d, want %d", key, r.status, status)
		}
	}
	if s := rt.who("search"); s.Requests != 1 || s.Tenant != "search" {
		t.Errorf("%+v", s)
	}
	for name, text := range map[string]string{"WARMPATH_TEST_NONE": "", "WARMPATH_TEST_SHORT": "search=short", "WARMPATH_TEST_ODD": searchKey} {
		os.Setenv(name, text)
		defer os.Unsetenv(name)
		if _, err := tenantsOf(name); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "tenants.keys_env") || strings.Contains(err.Error(), searchKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAClassThatARequestDoesNotGetIsToldToWhoAsksAndToWhoLooks(t *testing.T) {
	t.Parallel()
	rt := start(t, nil, newWorker(t, nil))
	body := filepath.Join(t.TempDir(), "request.json")
	os.WriteFile(body, []byte(chat("a", false)), 0o600)
	for asked, want := range map[string]string{
		"interactive": `class "interactive" is more than this request may ask for; it may ask for: standard, batch (settings queue.class, `, "nonsense": `class "nonsense" is not known; it may ask for: standard, batch (`, "batch": "", "": "",
	} {
		r := rt.post("/v1/chat/completions", chat("a", true), "X-Warmpath-Class", asked)
		if got := r.header.Get("X-Warmpath-Class"); want == "" && got != "" || want != "" && got != "standard" {
			t.Errorf("%q: the answer says class %q", asked, got)
		}
		rt.idle()
		_, was, _ := rt.cli("explain", "--id", r.header.Get("X-Request-Id"))
		_, would, _ := rt.cli("explain", "--body", body, "--header", "X-Warmpath-Class: "+asked)
		for _, text := range []string{was, would} {
			if strings.Contains(text, "may ask for") != (want != "") || !strings.Contains(text, want) {
				t.Errorf("%q: it is explained as\n%s", asked, text)
			}
		}
	}
}
