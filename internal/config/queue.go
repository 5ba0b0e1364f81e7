package config

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/sched"
)

// Queue is who waits here for room on a worker.
type Queue struct {
	Enabled        bool          `yaml:"enabled" doc:"Requests wait here while every worker that could serve them has enough to do, and not in the engines, where they could be neither put in order nor placed elsewhere. While a worker has room nobody waits. false: engines queue."`
	Classes        []Class       `yaml:"classes" doc:"Priority classes, the most urgent first. Urgent ones go first; one that has starved gets a share all the same, see age_after."`
	Class          string        `yaml:"class" doc:"Class of requests for which nothing else is said. With keys, a tenant's own; without, a client may ask for a less urgent one by X-Warmpath-Class."`
	RequestsMax    int           `yaml:"requests_max" min:"1" doc:"Requests that wait at one time; beyond it the answer is 503 with Retry-After."`
	BytesMax       Bytes         `yaml:"bytes_max" min:"64KiB" doc:"Memory of the bodies of those that wait."`
	WorkMax        time.Duration `yaml:"work_max" min:"1s" doc:"Engine time that all that waits is expected to take."`
	TenantRoom     float64       `yaml:"tenant_room" doc:"What one tenant may hold of the queue, times what is still free of it: with 8, eight ninths of it when nobody else waits."`
	SizeMultiple   float64       `yaml:"size_multiple" doc:"For how long a request may be overtaken by its tenant's shorter ones, in multiples of its own prefill."`
	AgeAfter       time.Duration `yaml:"age_after" doc:"How long a class may get nothing before aged_share of what goes to those above it is its own."`
	AgedShare      float64       `yaml:"aged_share" doc:"That share, 0 to 1."`
	Depth          time.Duration `yaml:"depth" min:"1ms" doc:"Prefill that may be queued in an engine before it counts as having no room: enough to keep it busy. Batch slots and KV memory count too, where the engine tells them."`
	Hold           time.Duration `yaml:"hold" doc:"How long a request waits when no worker of its model can take anything, as before the first has come. 0: the answer is 503 at once."`
	BodyPriority   string        `yaml:"body_priority" enum:"ignore,refuse,off" doc:"What becomes of the priority in a body, a class' name or a whole number: 0 is the usual class, below 0 the more urgent ones, above 0 the less urgent ones. It holds as far as its sender may have the class, as by X-Warmpath-Class, which goes before it. ignore: what goes beyond is passed over. refuse: it is answered 403. off: the field is the engine's alone."`
	EnginePriority bool          `yaml:"engine_priority" doc:"Write the request's class into the priority of bodies sent to engines that go by it, so that they keep the order too: vLLM, which must be started with --scheduling-policy priority, and SGLang, when it says that it was with --enable-priority-scheduling. The class of requests for which nothing else is said is 0."`
	Heavy          Heavy         `yaml:"heavy" doc:"Prefills out of all proportion to the others: when requests wait, few of them run at one time."`
}

// Class is one priority class.
type Class struct {
	Name     string        `yaml:"name,scalar" doc:"What requests and tenants call it."`
	Order    string        `yaml:"order" enum:"shortest,fcfs,deadline" doc:"Which of a tenant's requests goes first: the shorter prefill (see size_multiple), the first that came, or the one that has to leave first."`
	WaitMax  time.Duration `yaml:"wait_max" doc:"How long its requests wait at most; then the answer is 503 with Retry-After. A request may ask for less by X-Request-Timeout-Ms."`
	Ceiling  float64       `yaml:"ceiling" doc:"Share of the queue's bounds up to which it may fill it, above 0 to 1; what is above it is kept for classes above. 0: as the class above it, 1 for the first."`
	ShedFrom float64       `yaml:"shed_from" doc:"Share of its ceiling from which on some are refused by chance, more and more until the ceiling. 1: none before."`
}

// Heavy is flow.HeavyRule.
type Heavy struct {
	Seconds      float64 `yaml:"seconds" doc:"Prefill from which on a request is heavy. 0: multiple times the recent median of its model."`
	Multiple     float64 `yaml:"multiple" doc:"Of the median."`
	FloorSeconds float64 `yaml:"floor_seconds" doc:"Below it nothing is heavy, however short the others are."`
	LanesMax     int     `yaml:"lanes_max" min:"1" doc:"Heavy prefills under way on one worker at one time."`
	LightMin     int     `yaml:"light_min" doc:"Workers that stay without any, where there are more than that."`
}

// Tenants is who may use the router.
type Tenants struct {
	File    string `yaml:"file" doc:"File of tenants and the digests of their API keys (docs/TENANTS.md). Empty: nobody is asked for a key, and a client's own passes to engines without one of their own."`
	KeysEnv string `yaml:"keys_env" doc:"Environment variable with tenants and their keys in place of a file: NAME=KEY,NAME=KEY. They have no limits. Read at start. Empty: none."`
}

func defaultQueue() Queue {
	f, h, r := flow.DefaultOptions(), flow.DefaultHeavyRule(), sched.DefaultRoomLimits()
	return Queue{
		Enabled: true, Class: "standard", BodyPriority: "ignore",
		Classes: []Class{
			{Name: "interactive", Order: string(flow.Shortest), WaitMax: time.Minute, Ceiling: 1, ShedFrom: 1},
			{Name: "standard", Order: string(flow.Shortest), WaitMax: 10 * time.Minute, Ceiling: 0.9, ShedFrom: 1},
			{Name: "batch", Order: string(flow.Shortest), WaitMax: time.Hour, Ceiling: 0.8, ShedFrom: 1},
		},
		RequestsMax: f.RequestsMax, BytesMax: Bytes(f.BytesMax), WorkMax: time.Hour, TenantRoom: f.TenantRoom, SizeMultiple: f.SizeMultiple,
		AgeAfter: f.AgeAfter, AgedShare: f.AgedShare, Depth: time.Duration(r.DepthSeconds * float64(time.Second)),
		Heavy: Heavy{h.Seconds, h.Multiple, h.FloorSeconds, h.LanesMax, h.LightMin},
	}
}

// complete gives a class that says little what is usual. above is the ceiling of the class above it, which it may not exceed.
func (c *Class) complete(above float64) {
	if c.Order == "" {
		c.Order = string(flow.Shortest)
	}
	if c.WaitMax == 0 {
		c.WaitMax = 10 * time.Minute
	}
	if c.Ceiling == 0 {
		c.Ceiling = above
	}
	if c.ShedFrom == 0 {
		c.ShedFrom = 1
	}
}

// ClassNames are the classes' names, the most urgent first.
func (q Queue) ClassNames() []string {
	names := make([]string, len(q.Classes))
	for i, c := range q.Classes {
		names[i] = c.Name
	}
	return names
}

// Flow is what the room calls it.
func (q Queue) Flow() flow.Options {
	o := flow.DefaultOptions()
	o.Classes = nil
	for _, c := range q.Classes {
		o.Classes = append(o.Classes, flow.Class{Name: c.Name, Order: flow.Order(c.Order), WaitMax: c.WaitMax, Ceiling: c.Ceiling, ShedFrom: c.ShedFrom})
	}
	o.RequestsMax, o.BytesMax, o.SecondsMax, o.TenantRoom = q.RequestsMax, int64(q.BytesMax), q.WorkMax.Seconds(), q.TenantRoom
	o.SizeMultiple, o.AgeAfter, o.AgedShare = q.SizeMultiple, q.AgeAfter, q.AgedShare
	return o
}

// HeavyRule is what the room calls it.
func (q Queue) HeavyRule() flow.HeavyRule {
	return flow.HeavyRule{Seconds: q.Heavy.Seconds, Multiple: q.Heavy.Multiple, FloorSeconds: q.Heavy.FloorSeconds, LanesMax: q.Heavy.LanesMax, LightMin: q.Heavy.LightMin}
}

// Room is what the scheduler calls it.
func (q Queue) Room() sched.RoomLimits {
	return sched.RoomLimits{DepthSeconds: q.Depth.Seconds(), HeavyLanesMax: q.Heavy.LanesMax, LightMin: q.Heavy.LightMin}
}

// tenants holds the two places for keys against each other.
func (v *verdict) tenants(t Tenants) {
	if t.File != "" && t.KeysEnv != "" {
		v.wrong("tenants.keys_env", "%s and tenants.file exclude each other; name keys in one place", t.KeysEnv)
	}
}

// queue holds what only the room itself can tell.
func (v *verdict) queue(q Queue) {
	o := q.Flow()
	if len(*v) == 0 { // else it says the same again
		if err := o.Check(); err != nil {
			v.wrong("queue", "%v", err)
		}
		if err := q.HeavyRule().Check(); err != nil {
			v.wrong("queue.heavy", "%v", err)
		}
	}
	for _, name := range q.ClassNames() {
		if name == q.Class {
			return
		}
	}
	v.wrong("queue.class", "%q is no class; there are: %s", q.Class, strings.Join(q.ClassNames(), ", "))
}
