package proxy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/sched"
)

// modelEntry is one model as /v1/models lists it: OpenAI's fields, Anthropic's beside them, and what a user of a fleet asks next.
type modelEntry struct {
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
	Workers     []modelWorker `json:"workers"`
}

type modelWorker struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// models merges what the workers serve, in order of name.
func (g *Gate) models() []modelEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	byID := map[string]*modelEntry{}
	for _, w := range g.fleet.Workers() {
		info := w.Info()
		for _, m := range info.Models {
			e := byID[m.ID]
			if e == nil {
				e = &modelEntry{ID: m.ID, Object: "model", Type: "model", DisplayName: m.ID, OwnedBy: "warmpath", Parent: m.Parent, Engine: info.Engine}
				e.Created, e.CreatedAt = w.Added.Unix(), w.Added.UTC().Format("2006-01-02T15:04:05Z")
				byID[m.ID] = e
			}
			if m.ContextMax > 0 && (e.MaxModelLen == 0 || m.ContextMax < e.MaxModelLen) {
				e.MaxModelLen = m.ContextMax
			}
			if !strings.Contains(e.Engine, info.Engine) {
				e.Engine += "," + info.Engine
			}
			e.Workers = append(e.Workers, modelWorker{w.ID, w.State()})
		}
	}
	all := make([]modelEntry, 0, len(byID))
	for _, e := range byID {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b modelEntry) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// serveModels answers the merged list of what the fleet serves, in a form that OpenAI's and Anthropic's clients both read.
func (p *Proxy) serveModels(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(headerRequestID, requestID(r.Header))
	list := p.gate.models()
	out := map[string]any{"object": "list", "data": list, "has_more": false}
	if len(list) > 0 {
		out["first_id"], out["last_id"] = list[0].ID, list[len(list)-1].ID
	}
	writeJSON(w, out)
}

// serveModel answers one model; its id may hold slashes.
func (p *Proxy) serveModel(w http.ResponseWriter, r *http.Request, id string) {
	w.Header().Set(headerRequestID, requestID(r.Header))
	for _, m := range p.gate.models() {
		if m.ID == id {
			writeJSON(w, m)
			return
		}
	}
	d := llmapi.OpenAI
	if r.Header.Get("Anthropic-Version") != "" {
		d = llmapi.Anthropic
	}
	(&failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: "no worker serves a model " + id}).write(w, d)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// serves says whether a worker has a model, by name or alias.
func serves(w *fleet.Worker, model string) bool {
	_, ok := w.Model(model)
	return ok
}

// explain is a decision on one header line.
func explain(d *sched.Decision) string {
	line, err := json.Marshal(d)
	if err != nil {
		return ""
	}
	return string(line)
}
