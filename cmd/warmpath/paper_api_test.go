package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/page"
)

// apiSchema is what is read of a schema in docs/openapi.yaml.
type apiSchema struct {
	Ref        string                `yaml:"$ref"`
	Type       any                   `yaml:"type"`
	Required   []string              `yaml:"required"`
	Properties map[string]*apiSchema `yaml:"properties"`
	Items      *apiSchema            `yaml:"items"`
}

type apiAnswer struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct {
		Schema *apiSchema `yaml:"schema"`
	} `yaml:"content"`
}

type apiCall struct {
	Parameters []struct {
		Name string `yaml:"name"`
		In   string `yaml:"in"`
	} `yaml:"parameters"`
	Responses map[string]apiAnswer `yaml:"responses"`
}

type apiPath struct {
	Servers []struct {
		URL string `yaml:"url"`
	} `yaml:"servers"`
	Get    *apiCall `yaml:"get"`
	Post   *apiCall `yaml:"post"`
	Delete *apiCall `yaml:"delete"`
}

// apiFile is docs/openapi.yaml, as far as it is checked.
type apiFile struct {
	Paths      map[string]apiPath `yaml:"paths"`
	Components struct {
		Schemas   map[string]*apiSchema `yaml:"schemas"`
		Responses map[string]apiAnswer  `yaml:"responses"`
	} `yaml:"components"`
}

func readAPI(t *testing.T) (api apiFile) {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &api)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`#/components/(schemas|responses|parameters)/(\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !regexp.MustCompile(`(?m)^    ` + ref[2] + `:`).Match(text) {
			t.Errorf("docs/openapi.yaml refers to %s, which it does not have", ref[0])
		}
	}
	return api
}

// methods are those that a path is described with.
func (p apiPath) methods() (methods []string) {
	for method, call := range map[string]*apiCall{http.MethodGet: p.Get, http.MethodPost: p.Post, http.MethodDelete: p.Delete} {
		if call != nil {
			methods = append(methods, method)
		}
	}
	slices.Sort(methods)
	return methods
}

// schema is what an answer in JSON is described by; nil where it is none.
func (a *apiFile) schema(answer apiAnswer) *apiSchema {
	if name, ok := strings.CutPrefix(answer.Ref, "#/components/responses/"); ok {
		answer = a.Components.Responses[name]
	}
	return a.resolve(answer.Content["application/json"].Schema)
}

func (a *apiFile) resolve(s *apiSchema) *apiSchema {
	if s != nil && s.Ref != "" {
		return a.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// registeredPaths are the admin port's paths by the methods that the sources register them with.
func registeredPaths(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("admin*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{"/try/{path}": {http.MethodPost}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range regexp.MustCompile(`mux\.Handle(?:Func)?\("([A-Z]+) (/[^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			found[r[2]] = append(found[r[2]], r[1])
		}
	}
	p, err := page.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range p.Paths() {
		at := strings.TrimSuffix(path, "{$}")
		if at != "/" {
			folder, _ := filepath.Split(at)
			at = folder + "{file}"
		}
		found[at] = []string{http.MethodGet}
	}
	delete(found, "/vendor/")
	for _, methods := range found {
		slices.Sort(methods)
	}
	return found
}

func TestTheDescriptionOfTheAPINamesEveryPathAndMethodOfTheAdminPort(t *testing.T) {
	api := readAPI(t)
	rt := start(t, func(c *config.Config) { c.Pprof = true })
	handler, err := rt.adminHandler()
	if err != nil {
		t.Fatal(err)
	}
	mux, there := handler.(*http.ServeMux), registeredPaths(t)
	for path, methods := range there {
		if got := api.Paths[path].methods(); !slices.Equal(got, methods) {
			t.Errorf("docs/openapi.yaml has %v for %s, the admin port takes %v", got, path, methods)
		}
	}
	for path, p := range api.Paths {
		if len(p.Servers) > 0 { // the data port's
			continue
		}
		if there[path] == nil {
			t.Errorf("docs/openapi.yaml has %s, which the admin port does not", path)
		}
		at := strings.NewReplacer("/vendor/{file}", "/vendor/uPlot.min.css", "{file}", "app.js", "{id}", "x", "{path}", "v1/models").Replace(path)
		q, _ := http.NewRequest(http.MethodGet, "http://admin"+at, nil)
		takes := slices.DeleteFunc(adminMethods(mux, q), func(m string) bool { return m == http.MethodHead })
		slices.Sort(takes)
		if !slices.Equal(takes, p.methods()) {
			t.Errorf("%s takes %v, docs/openapi.yaml says %v", at, takes, p.methods())
		}
	}
}

func TestTheDescriptionOfTheAPIHasTheQueryParametersOfEachPath(t *testing.T) {
	api := readAPI(t)
	rt := start(t, nil, newWorker(t, nil))
	asked := 0
	for path, p := range api.Paths {
		for method, call := range map[string]*apiCall{http.MethodGet: p.Get, http.MethodPost: p.Post} {
			if call == nil || len(p.Servers) > 0 {
				continue
			}
			var want []string
			for _, parameter := range call.Parameters {
				if parameter.In == "query" {
					want = append(want, parameter.Name)
				}
			}
			var refused struct{ Error struct{ Message string } }
			if len(want) == 0 || strings.HasPrefix(path, "/debug/") || rt.adminCall(method, strings.ReplaceAll(path, "{id}", "x")+"?zzzzzz=1", "{}", &refused) != http.StatusBadRequest {
				continue
			}
			_, names, found := strings.Cut(refused.Error.Message, "unknown query parameter zzzzzz; there are ")
			if !found {
				_, names, found = strings.Cut(refused.Error.Message, "unknown query parameter zzzzzz; there is ")
			}
			if !found {
				continue
			}
			asked++
			got := strings.Split(strings.ReplaceAll(names, " and ", ", "), ", ")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s %s takes %v, docs/openapi.yaml says %v", method, path, got, want)
			}
		}
	}
	if asked < 6 {
		t.Errorf("only %d paths said what they take", asked)
	}
}

func TestAnswersHaveTheFieldsThatTheDescriptionOfTheAPINames(t *testing.T) {
	api := readAPI(t)
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	r := read(rt.http.Post(rt.DataURL()+"/v1/chat/completions", "application/json", strings.NewReader(chat("described", false))))
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	id := r.header.Get("X-Request-Id")
	eventually(t, "its decision to be kept", func() bool { return rt.adminCall(http.MethodGet, "/decisions/"+id, "", nil) == http.StatusOK })
	model := rt.state().Workers[0].Models[0]
	for _, c := range []struct{ method, path, at, body, status string }{
		{http.MethodGet, "/state", "/state", "", "200"},
		{http.MethodGet, "/workers", "/workers", "", "200"},
		{http.MethodGet, "/workers/{id}", "/workers/w1", "", "200"},
		{http.MethodGet, "/workers/{id}", "/workers/nobody", "", "404"},
		{http.MethodPost, "/workers/{id}/drain", "/workers/w1/drain", "", "200"},
		{http.MethodPost, "/workers/{id}/undrain", "/workers/w1/undrain", "", "200"},
		{http.MethodGet, "/policy", "/policy", "", "200"},
		{http.MethodPost, "/policy", "/policy", `{"policy": "warm-cost"}`, "200"},
		{http.MethodPost, "/policy", "/policy", `{"policy": "best"}`, "400"},
		{http.MethodGet, "/series", "/series?window=1m", "", "200"},
		{http.MethodGet, "/decisions", "/decisions", "", "200"},
		{http.MethodGet, "/decisions/{id}", "/decisions/" + id, "", "200"},
		{http.MethodGet, "/prefixes", "/prefixes", "", "200"},
		{http.MethodGet, "/requests", "/requests", "", "200"},
		{http.MethodDelete, "/requests/{id}", "/requests/nobody", "", "404"},
		{http.MethodGet, "/checks", "/checks", "", "200"},
		{http.MethodPost, "/explain", "/explain", chat("described", false), "200"},
		{http.MethodPost, "/reload", "/reload", "", "409"},
		{http.MethodGet, "/v1/models", "/v1/models", "", "200"},
		{http.MethodGet, "/v1/models/{id}", "/v1/models/" + model, "", "200"},
		{http.MethodPost, "/workers", "/workers", `{"url": "http://127.0.0.1:1", "id": "another"}`, "201"},
		{http.MethodDelete, "/workers/{id}", "/workers/another", "", "200"},
	} {
		p := api.Paths[c.path]
		call, base := map[string]*apiCall{http.MethodGet: p.Get, http.MethodPost: p.Post, http.MethodDelete: p.Delete}[c.method], rt.AdminURL()
		if len(p.Servers) > 0 {
			base = rt.DataURL()
		}
		q, _ := http.NewRequest(c.method, base+c.at, strings.NewReader(c.body))
		answer, err := rt.http.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if want, _, _ := strings.Cut(answer.Status, " "); want != c.status || call == nil {
			t.Errorf("%s %s: %s, want %s: %s", c.method, c.at, answer.Status, c.status, text)
			continue
		}
		api.hold(t, c.method+" "+c.at, api.schema(call.Responses[c.status]), text)
	}
}

func TestTheDescriptionOfTheAPIHasEachFieldOfItsKinds(t *testing.T) {
	api := readAPI(t)
	kinds := map[string]any{"State": routerState{}, "Worker": workerState{}, "NewWorker": postedWorker{}}
	for name, kind := range kinds {
		for i, of := 0, reflect.TypeOf(kind); i < of.NumField(); i++ {
			field, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if field != "-" && api.Components.Schemas[name].Properties[field] == nil {
				t.Errorf("docs/openapi.yaml: %s has no %s", name, field)
			}
		}
	}
	explained := api.resolve(api.Paths["/explain"].Post.Responses["200"].Content["application/json"].Schema)
	for i, of := 0, reflect.TypeOf(explanation{}); i < of.NumField(); i++ {
		if field, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); field != "-" && explained.Properties[field] == nil {
			t.Errorf("docs/openapi.yaml: the answer of /explain has no %s", field)
		}
	}
}

// hold reports fields that a schema requires and an answer has not, and those that it has and the schema does not know, at the first level.
func (a *apiFile) hold(t *testing.T, at string, s *apiSchema, text []byte) {
	t.Helper()
	if s == nil {
		t.Errorf("%s: docs/openapi.yaml does not describe its answer", at)
		return
	}
	if s.Type == "array" {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil || len(list) == 0 {
			t.Errorf("%s: %v, %s", at, err, text)
			return
		}
		a.hold(t, at, a.resolve(s.Items), list[0])
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	for _, name := range s.Required {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s: no %s in the answer, which docs/openapi.yaml requires: %s", at, name, text)
		}
	}
	for name, value := range fields {
		known, ok := s.Properties[name]
		if !ok && len(s.Properties) > 0 {
			t.Errorf("%s: docs/openapi.yaml does not know %s", at, name)
		} else if sub := a.resolve(known); sub != nil && len(sub.Properties) > 0 {
			a.hold(t, at+" "+name, sub, value)
		}
	}
}
