package proxy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
)

// serveModels answers what the fleet serves to whoever asks: the merged list, in a form that OpenAI's and Anthropic's clients both read, or
// the one model that the path names, whose id may hold slashes. What a tenant may not use does not exist for it.
func (p *Proxy) serveModels(w http.ResponseWriter, r *http.Request) {
	in := intake.RequestFields(w, r, nil)
	w.Header().Set(intake.HeaderRequestID, intake.RequestID(in))
	d := llmapi.OpenAI
	if in.Has("Anthropic-Version") {
		d = llmapi.Anthropic
	}
	g, err := p.desk.Sees(p.now(), in)
	if err != nil {
		stranger(w, err).write(w, d)
		return
	}
	list := append(p.models(g.MayUse), gate.Virtual(p.choice.Names(g.Tenant, g.MayUse))...)
	if id, one := strings.CutPrefix(r.URL.Path, "/v1/models/"); one {
		if i := slices.IndexFunc(list, func(m gate.Model) bool { return m.ID == id }); i >= 0 {
			writeJSON(w, list[i])
			return
		}
		(&failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: "no worker serves a model " + id}).write(w, d)
		return
	}
	var down intake.Download
	down.Begin(w, p.o.Load().ClientTimeout)
	writeJSON(&down, gate.List(list))
}

// models are those that somebody may use.
func (p *Proxy) models(may func(model string) bool) []gate.Model {
	return slices.DeleteFunc(p.gate.Models(), func(m gate.Model) bool { return !may(m.ID) })
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
