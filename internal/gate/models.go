package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Model is one model as /v1/models lists it: OpenAI's fields, Anthropic's beside them, and what a user of a fleet asks next.
type Model struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"`
	Type        string        `json:"type"`
	DisplayName string        `json:"display_name"`
	Created     int64         `json:"created"`
	CreatedAt   string        `json:"created_at"`
	OwnedBy     string        `json:"owned_by"`
	MaxModelLen int           `json:"max_model_len,omitempty"` // the least of its workers: what is sure to fit
	Parent      string        `json:"parent,omitempty"`
	Engine      string        `json:"engine,omitempty"`
	Workers     []ModelWorker `json:"workers"`
}

// ModelWorker is one worker of a model.
type ModelWorker struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// Models merges what the workers serve, in order of name.
func (g *Gate) Models() []Model {
	g.mu.Lock()
	defer g.mu.Unlock()
	byID := map[string]*Model{}
	for _, w := range g.fleet.Workers() {
		info := w.Info()
		for _, m := range info.Models {
			e := byID[m.ID]
			if e == nil {
				e = &Model{ID: m.ID, Object: "model", Type: "model", DisplayName: m.ID, OwnedBy: "warmpath", Parent: m.Parent, Engine: info.Engine}
				e.Created, e.CreatedAt = w.Added.Unix(), w.Added.UTC().Format("2006-01-02T15:04:05Z")
				byID[m.ID] = e
			}
			if m.ContextMax > 0 && (e.MaxModelLen == 0 || m.ContextMax < e.MaxModelLen) {
				e.MaxModelLen = m.ContextMax
			}
			if !strings.Contains(e.Engine, info.Engine) {
				e.Engine += "," + info.Engine
			}
			e.Workers = append(e.Workers, ModelWorker{w.ID, w.State()})
		}
	}
	all := make([]Model, 0, len(byID))
	for _, e := range byID {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// ModelList is /v1/models as OpenAI's and Anthropic's clients both read it.
type ModelList struct {
	Object  string  `json:"object"`
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID string  `json:"first_id,omitempty"`
	LastID  string  `json:"last_id,omitempty"`
}

// Virtual are names that stand for models, as the list has them.
func Virtual(names []string) (all []Model) {
	for _, name := range names {
		all = append(all, Model{ID: name, Object: "model", Type: "model", DisplayName: name, CreatedAt: "1970-01-01T00:00:00Z", OwnedBy: "warmpath", Workers: []ModelWorker{}})
	}
	return all
}

// List is of models in their order.
func List(models []Model) ModelList {
	l := ModelList{Object: "list", Data: models}
	if n := len(models); n > 0 {
		l.FirstID, l.LastID = models[0].ID, models[n-1].ID
	}
	return l
}

// Names lists at most so many models by their names.
func Names(models []Model, most int) string {
	names := make([]string, 0, len(models))
	for _, m := range models {
		names = append(names, m.ID)
	}
	if len(names) > most {
		names = append(names[:most], "...")
	}
	return strings.Join(names, ", ")
}

// serves says whether a worker has a model, by name or alias.
func serves(w *fleet.Worker, model string) bool {
	_, ok := w.Model(model)
	return ok
}

// AllDown is the word on a request that nobody took: how many workers of its model are down or put out, those that it tried included,
// when that is all of them. Else it is what was to be said otherwise.
func (g *Gate) AllDown(model string, tried []*fleet.Worker, otherwise string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := 0
	for _, w := range g.fleet.Workers() {
		if model != "" && w.ModelsKnown() && !serves(w, model) {
			continue
		}
		if state := w.State(); state != "down" && state != "loading" && state != "ejected" && !slices.Contains(tried, w) {
			return otherwise
		}
		all++
	}
	if all == 0 {
		return otherwise
	}
	return fmt.Sprintf("no worker of model %q can be reached: %d of %d are down", model, all, all)
}

// Holds says whether that very instance of a worker is still in the fleet.
func (g *Gate) Holds(id string, incarnation uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	return w != nil && w.Incarnation == incarnation
}

// Serving lists the endpoints of the workers that have a model; all of them when model is empty.
func (g *Gate) Serving(model string) []*Endpoint {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*Endpoint
	for _, w := range g.fleet.Workers() {
		if e := g.ends[w]; e != nil && (model == "" || serves(w, model)) {
			out = append(out, e)
		}
	}
	return out
}
