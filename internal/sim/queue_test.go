package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/traces"
)

// tenants is traffic of several, "name=traffic" each.
func tenants(t *testing.T, parts ...traces.Part) *traces.Trace {
	t.Helper()
	x, err := traces.Mix(parts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func asking(t *testing.T, tenant, traffic string) traces.Part {
	t.Helper()
	return traces.Part{Tenant: tenant, Trace: open(t, traffic)}
}

// queued is a queue of the usual kind.
func queued() *Queue {
	q := &Queue{Options: line.Options{Options: flow.DefaultOptions()}, Tenants: map[string]Share{}} // no room's limits are the usual ones
	q.Heavy.Multiple, q.Heavy.FloorSeconds = 10, 1
	return q
}

// held checks that every request was answered once or refused once, and that the tenants' figures are the run's.
func held(t *testing.T, what string, r *Result) {
	t.Helper()
	came, finished, refused := 0, 0, 0
	for _, x := range r.Tenants {
		if x.Came != x.Finished+len(x.Refused) {
			t.Errorf("%s: tenant %s asked %d times, %d were answered and %d refused", what, x.Name, x.Came, x.Finished, len(x.Refused))
		}
		came, finished, refused = came+x.Came, finished+x.Finished, refused+len(x.Refused)
	}
	if finished != r.Finished || refused != r.TurnedAway || came == 0 {
		t.Errorf("%s: tenants have %d answers and %d refusals, the run %d and %d", what, finished, refused, r.Finished, r.TurnedAway)
	}
}

func TestEveryRequestIsAnsweredOnceOrRefusedOnceInRandomQueues(t *testing.T) {
	for seed := range uint64(30) {
		chance := rand.New(rand.NewPCG(seed, 1))
		q := queued()
		q.RequestsMax, q.SecondsMax, q.Alike = 1+chance.IntN(200), 1+60*chance.Float64(), chance.IntN(4) == 0
		q.Classes = []flow.Class{
			{Name: "high", Order: flow.Shortest, WaitMax: time.Duration(1+chance.IntN(30)) * time.Second, Ceiling: 1, ShedFrom: 1},
			{Name: "low", Order: flow.FirstCome, WaitMax: time.Duration(1+chance.IntN(60)) * time.Second, Ceiling: 0.5 + chance.Float64()/2, ShedFrom: 0.5},
		}
		q.Class = "low"
		q.Tenants["b"] = Share{Class: "high", Weight: 1 + 5*chance.Float64()}
		x := tenants(t, asking(t, "a", fmt.Sprintf("bursts:requests=%d,burst=%d,prompt=3000,output=100,rate=%d", 1+chance.IntN(400), 1+chance.IntN(40), 1+chance.IntN(60))),
			asking(t, "b", fmt.Sprintf("chats:chats=%d,turns=3,rate=%d", 1+chance.IntN(100), 1+chance.IntN(20))))
		c := Config{Trace: x, Fleet: small(1 + chance.IntN(3)), Queue: q, ByTenant: true, Seed: seed, Replicas: 1 + chance.IntN(2)}
		held(t, fmt.Sprintf("seed %d", seed), run(t, c))
	}
}

func TestTheSameSeedGivesTheSameQueue(t *testing.T) {
	c := func() Config {
		x := tenants(t, asking(t, "a", "bursts:requests=400,burst=20,rate=40"), asking(t, "b", "chats:chats=50,rate=5"))
		return Config{Trace: x, Fleet: small(2), Queue: queued(), ByTenant: true, Seed: 9}
	}
	a, b := run(t, c()), run(t, c())
	if !reflect.DeepEqual(a, b) || len(a.Tenant("a").Turns) == 0 {
		t.Errorf("%d waited; the same run gave something else", len(a.Tenant("a").Turns))
	}
}

func TestAFleetWithRoomKnowsNoQueue(t *testing.T) {
	c := Config{Trace: tenants(t, asking(t, "a", "chats:chats=80,rate=2"), asking(t, "b", "bursts:requests=100,burst=1,rate=2")), Fleet: fleetOf(t, "h100-8b:4"), ByTenant: true, Seed: 4}
	without := run(t, c)
	c.Queue = queued()
	with := run(t, c)
	held(t, "with a queue", with)
	for _, x := range with.Tenants {
		if len(x.Turns)+len(x.Refused) > 0 {
			t.Errorf("tenant %s: %d waited, %d were refused", x.Name, len(x.Turns), len(x.Refused))
		}
		x.Class = "" // told with a queue only
	}
	if !reflect.DeepEqual(with, without) {
		t.Errorf("mean TTFT %v with a queue that nobody stood in, %v without", with.TTFT.Mean(), without.TTFT.Mean())
	}
}

func TestEngineSecondsOfTenantsThatBothWaitFollowTheirWeights(t *testing.T) {
	q := queued()
	q.Tenants["b"] = Share{Weight: 3}
	ask := "bursts:requests=6000,burst=1,prompt=2000,output=200,rate=50"
	x := tenants(t, asking(t, "a", ask), asking(t, "b", ask))
	r := run(t, Config{Trace: x, Fleet: fleetOf(t, "h100-8b:2"), Queue: q, ByTenant: true, Known: true, Seed: 2})
	held(t, "weights", r)
	a, b := r.Tenant("a").Between(time.Minute, 2*time.Minute), r.Tenant("b").Between(time.Minute, 2*time.Minute)
	if share := b / (a + b); math.Abs(share-0.75) > 0.05 {
		t.Errorf("%.1f and %.1f s of engine time: a share of %.3f by a weight of 3 to 1", a, b, share)
	}
}

func TestFiguresOfSeveralTenantsAddUp(t *testing.T) {
	x := tenants(t, asking(t, "a", "bursts:requests=300,burst=30,rate=60"), asking(t, "b", "bursts:requests=200,burst=10,rate=20"))
	r := run(t, Config{Trace: x, Fleet: small(1), Queue: queued(), ByTenant: true, Seed: 6})
	sum := Together(r.Tenants)
	off := func(a, b float64) float64 { return math.Abs(a-b) / max(a, b, 1e-9) }
	a, b := r.Tenants[0], r.Tenants[1]
	if sum.Finished != r.Finished || sum.TTFT.Count() != r.TTFT.Count() || off(sum.TTFT.Mean(), r.TTFT.Mean()) > 1e-9 || off(sum.TTFT.Quantile(0.99), r.TTFT.Quantile(0.99)) > 0.02 {
		t.Errorf("%d requests, mean TTFT %v, p99 %v; of the run %d, %v, %v", sum.Finished, sum.TTFT.Mean(), sum.TTFT.Quantile(0.99), r.Finished, r.TTFT.Mean(), r.TTFT.Quantile(0.99))
	}
	whole := func(x *Tenant) float64 { return x.Between(0, math.MaxInt64) }
	if len(sum.Turns) != len(a.Turns)+len(b.Turns) || off(whole(&sum), whole(a)+whole(b)) > 1e-9 || cmp.Compare(a.Name, b.Name) >= 0 {
		t.Errorf("%d turns of %d and %d, %v s of %v and %v", len(sum.Turns), len(a.Turns), len(b.Turns), whole(&sum), whole(a), whole(b))
	}
}
