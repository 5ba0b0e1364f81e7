package proxy

import (
	"encoding/json"
	"net/http"

	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/sched"
)

// serveModels answers the merged list of what the fleet serves, in a form that OpenAI's and Anthropic's clients both read.
func (p *Proxy) serveModels(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(intake.HeaderRequestID, intake.RequestID(intake.RequestFields(w, r, nil)))
	list := p.gate.Models()
	out := map[string]any{"object": "list", "data": list, "has_more": false}
	if len(list) > 0 {
		out["first_id"], out["last_id"] = list[0].ID, list[len(list)-1].ID
	}
	var down intake.Download
	down.Begin(w, p.o.ClientTimeout)
	writeJSON(&down, out)
}

// serveModel answers one model; its id may hold slashes.
func (p *Proxy) serveModel(w http.ResponseWriter, r *http.Request, id string) {
	w.Header().Set(intake.HeaderRequestID, intake.RequestID(intake.RequestFields(w, r, nil)))
	for _, m := range p.gate.Models() {
		if m.ID == id {
			writeJSON(w, m)
			return
		}
	}
	d := llmapi.OpenAI
	if intake.RequestFields(w, r, nil).Has("Anthropic-Version") {
		d = llmapi.Anthropic
	}
	(&failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: "no worker serves a model " + id}).write(w, d)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// explain is a decision on one header line.
func explain(d *sched.Decision) string {
	line, err := json.Marshal(d)
	if err != nil {
		return ""
	}
	return string(line)
}
