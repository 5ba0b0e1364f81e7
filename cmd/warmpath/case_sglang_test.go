package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/kvevent"
)

func TestSGLangIsFollowedWhereItsOwnSettingsSayThatItPublishes(t *testing.T) {
	t.Parallel()
	w1, w2 := newTeller(t, true), newTeller(t, false)
	here := func(endpoint string) string { return strings.Replace(endpoint, "127.0.0.1", "*", 1) }
	raw := fmt.Sprintf(`{"publisher":"zmq","endpoint":%q,"replay_endpoint":%q,"topic":"kv"}`, here(w1.pub.Endpoint()), here(w1.replay.Endpoint()))
	w1.settings = fmt.Sprintf(`"kv_events_config":%q,"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":1,"topic":"kv"}`, raw)
	_, port, _ := strings.Cut(strings.TrimPrefix(w2.pub.Endpoint(), "tcp://"), ":")
	w2.settings = fmt.Sprintf(`"kv_events_config":null,"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":%s,"topic":"","block_size":16,"dp_size":1}`, port)
	rt := startTold(t, nil, w1, w2)
	p := cached(long("P"), kvevent.Event{})
	w1.lose(p[:5]...) // for the replay endpoint to bring
	w1.say(p[5:]...)
	w2.say(cached(long("Q"), kvevent.Event{})...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	rt.wantCredit("SGLang", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
	quiet := newTeller(t, false)
	quiet.settings = `"kv_events_config":null,"kv_events":null`
	found := doctor(t, exitOK, "--worker", w1.url, "--worker", quiet.url, "--no-requests")
	for i, want := range []string{"full", "none"} {
		for _, c := range found.Workers[i].Checks {
			if c.Part == "cache events" && (string(c.Level) != want || strings.Contains(c.Gain, "--kv-events-config") != (want == "none")) {
				t.Errorf("%+v, want %s", c, want)
			}
		}
	}
	several := newTeller(t, false)
	several.settings = strings.Replace(w1.settings, `"kv_events"`, `"dp_size":2,"kv_events"`, 1)
	for _, c := range doctor(t, exitOK, "--worker", several.url, "--no-requests").Workers[0].Checks {
		if c.Part == "cache events" && (c.Level != "none" || !strings.Contains(c.Found, "2 data-parallel ranks") || c.Gain != "") {
			t.Errorf("%+v", c)
		}
	}
	if s := rt.worker("w2").Cache; s.Mode != modeAsked || s.Source != "tcp://127.0.0.1:"+port {
		t.Errorf("%+v", s)
	}
}
