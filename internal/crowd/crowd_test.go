package crowd

import (
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

func usual() sim.Queue {
	q := config.Default().Queue
	return sim.Queue{Options: line.Options{Options: q.Flow(), Heavy: q.HeavyRule(), Hold: q.Hold}, Room: q.Room(), Class: q.Class}
}

// TestEvenAFewSecondsOfASceneShowTheQueuesOrder plays the scenes of shares in short: what a loud tenant does to a quiet one.
func TestEvenAFewSecondsOfASceneShowTheQueuesOrder(t *testing.T) {
	s := &show{ctx: t.Context(), usual: usual(), seed: 1}
	q := usual()
	q.Tenants = map[string]sim.Share{"quiet": {Weight: 3}}
	const spans = 12 * time.Second
	r, err := s.play(scene{fleet: "h100-8b:2", parts: []traces.Part{oneShots("quiet", 30), oneShots("loud", 100)}, queue: &q, spans: spans})
	if err != nil {
		t.Fatal(err)
	}
	quiet, loud := r.Tenant("quiet").Between(spans/3, spans), r.Tenant("loud").Between(spans/3, spans)
	if share := quiet / (quiet + loud); math.Abs(share-0.75) > 0.05 {
		t.Errorf("three times the weight gave %.3f of the engines' time", share)
	}
	if !lossless(r.Tenants...) {
		t.Error("requests were lost, or answered twice")
	}
	parts := []traces.Part{oneShots("quiet", 5), oneShots("loud", 100)}
	r, err = s.play(scene{fleet: "h100-8b:2", parts: parts, queue: &q, spans: spans})
	if err != nil {
		t.Fatal(err)
	}
	fair := r.Tenant("quiet").TTFT.Quantile(0.99)
	if r, err = s.play(scene{fleet: "h100-8b:2", parts: parts, queue: s.plain(), spans: spans}); err != nil {
		t.Fatal(err)
	}
	if plain := r.Tenant("quiet").TTFT.Quantile(0.99); fair > plain/10 {
		t.Errorf("a quiet tenant's p99 TTFT is %.3f s beside a loud one, %.3f s first come first served", fair, plain)
	}
}
