//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/render"
)

// asked are a chat's tokens, if they are known.
func asked(t *testing.T, m *render.Manager, body string) ([]uint32, bool) {
	t.Helper()
	var req llmapi.Request
	if err := req.Scan(llmapi.Chat, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return m.Tokens(t.Context(), render.Ask{Model: modelName, API: llmapi.Chat, Req: &req, Body: []byte(body)}, nil)
}

func TestLlamaCppTellsTheTokensThatItsOwnFileGivesHere(t *testing.T) {
	_, url := startEngine(t, 1)
	eventually(t, "the engine is ready", startWait, func() bool { return get(url+"/health") != "" })
	managers := map[render.Mode]*render.Manager{}
	for mode, files := range map[render.Mode]map[string]string{render.EngineSide: nil, render.Exact: {modelName: model}} {
		m := render.New(render.Options{Seed: prefix.NewSeed([]byte("e2e")), Files: files, Deadline: startWait})
		t.Cleanup(m.Close)
		m.Follow(render.Target{ID: "a", URL: url, Engine: "llama.cpp", Models: []fleet.Model{{ID: modelName}}, Incarnation: 1})
		eventually(t, "the model is "+string(mode), startWait, func() bool {
			all := m.States()
			return len(all) == 1 && all[0].Mode == mode
		})
		t.Log(m.States()[0].Why)
		managers[mode] = m
	}
	compared := 0
	for _, c := range chat.Conversations {
		if c.Body == "" || strings.Contains(c.Body, "continue_final_message") {
			continue // what llama.cpp continues is not what was asked for
		}
		told, ok := asked(t, managers[render.EngineSide], c.Body)
		if !ok {
			t.Errorf("%s: the engine does not tell its tokens", c.Name)
			continue
		}
		ours, ok := asked(t, managers[render.Exact], c.Body)
		if !ok || !slices.Equal(ours, told) {
			t.Errorf("%s: %v\nthe engine says %v", c.Name, ours, told)
		}
		compared++
	}
	if s := managers[render.Exact].States()[0]; compared < 30 || s.Exact < 30 || s.Mismatches != 0 {
		t.Errorf("%d conversations compared: %+v", compared, s)
	}
}
