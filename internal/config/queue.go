package config

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/room"
)

// Queue is who waits here for room on a worker.
type Queue struct {
	Enabled      bool          `yaml:"enabled" change:"restart" doc:"Requests wait here while every worker that could serve them has enough to do, and not in the engines, where they could be neither put in order nor placed elsewhere. While a worker has room nobody waits. false: engines queue."`
	Classes      []Class       `yaml:"classes" change:"entries" doc:"Priority classes, the most urgent first. Urgent ones go first; one that has starved gets a share all the same, see age_after."`
	Class        string        `yaml:"class" doc:"Class of requests for which nothing else is said. With keys, a tenant's own; without, a client may ask for a less urgent one by X-Warmpath-Class."`
	RequestsMax  int           `yaml:"requests_max" min:"1" doc:"Requests that wait at one time; beyond it the answer is 503 with Retry-After."`
	BytesMax     Bytes         `yaml:"bytes_max" min:"64KiB" doc:"Memory of the bodies of those that wait."`
	WorkMax      time.Duration `yaml:"work_max" min:"1s" doc:"Engine time that all that waits is expected to take."`
	TenantRoom   float64       `yaml:"tenant_room" doc:"What one tenant may hold of the queue, times what is still free of it: with 8, eight ninths of it when nobody else waits."`
	Ahead        time.Duration `yaml:"ahead" doc:"Engine time, by weight, that a tenant who asked for less than its share may have before its turn: what it asks for comes in lots."`
	SizeMultiple float64       `yaml:"size_multiple" doc:"For how long a request may be overtaken by its tenant's shorter ones, in multiples of its own prefill."`
	AgeAfter     time.Duration `yaml:"age_after" doc:"How long a class may get nothing before aged_share of what goes to those above it is its own."`
	AgedShare    float64       `yaml:"aged_share" doc:"That share, 0 to 1."`
	Depth        time.Duration `yaml:"depth" min:"1ms" doc:"Prefill that may be queued in an engine before it counts as having no room: enough to keep it busy. Batch slots and KV memory count too, where the engine tells them."`
	Reserve      float64       `yaml:"reserve" doc:"Share of the workers, rounded down, that are kept without prefill for those who go first: by classes below one that had requests within half a minute, and by tenants with several requests waiting beside other tenants. 0: they fill up all."`
	PreemptedMax int           `yaml:"preempted_max" doc:"How often the work of one request may be taken back from engines, see preemptible."`
	Hold         time.Duration `yaml:"hold" doc:"How long a request waits when no worker of its model can take anything, as before the first has come. 0: the answer is 503 at once."`
	// What clients and engines are told of it, and tell.
	BodyPriority   string        `yaml:"body_priority" enum:"ignore,refuse,off" doc:"What becomes of the priority in a body, a class' name or a whole number: 0 is the usual class, below 0 the more urgent ones, above 0 the less urgent ones. It holds as far as its sender may have the class, as by X-Warmpath-Class, which goes before it. ignore: what goes beyond is passed over. refuse: it is answered 403. off: the field is the engine's alone."`
	EnginePriority bool          `yaml:"engine_priority" doc:"Write the request's class into the priority of bodies sent to engines that go by it, so that they keep the order too: vLLM, which must be started with --scheduling-policy priority, and SGLang, when it says that it was with --enable-priority-scheduling. The class of requests for which nothing else is said is 0."`
	TellPosition   time.Duration `yaml:"tell_position" doc:"How often a client that waits for a stream is told its position and how long it may still take, as a comment in the stream. Its answer has begun then: what goes wrong afterwards comes as an event of the stream with status 200. 0: never."`
	Heavy          Heavy         `yaml:"heavy" doc:"Prefills out of all proportion to the others: when requests wait, few of them run at one time."`
}

// Class is one priority class.
type Class struct {
	Name     string        `yaml:"name,scalar" doc:"What requests and tenants call it."`
	Order    string        `yaml:"order" enum:"shortest,fcfs,deadline" doc:"Which of a tenant's requests goes first: the shorter prefill (see size_multiple), the first that came, or the one that has to leave first."`
	WaitMax  time.Duration `yaml:"wait_max" doc:"How long its requests wait at most; then the answer is 503 with Retry-After. A request may ask for less by X-Request-Timeout-Ms."`
	Ceiling  float64       `yaml:"ceiling" doc:"Share of the queue's bounds up to which it may fill it, above 0 to 1; what is above it is kept for classes above. 0: as the class above it, 1 for the first."`
	ShedFrom float64       `yaml:"shed_from" doc:"Share of its ceiling from which on some are refused by chance, more and more until the ceiling. 1: none before."`

	Preemptible   bool          `yaml:"preemptible" doc:"Work of this class may be taken back from its engine for a class above, as long as no byte of its answer has gone out: it waits again, in its old place. Streams of the class get their head with the first piece of their answer."`
	PreemptsAfter time.Duration `yaml:"preempts_after" doc:"How long its requests wait before they take the place of preemptible work below, or a quarter longer where that is as good as done. 0: only when it would be too late otherwise."`
}

// Heavy is heavy.Rule.
type Heavy struct {
	Seconds      float64 `yaml:"seconds" doc:"Prefill from which on a request is heavy. 0: multiple times the recent median of its model."`
	Multiple     float64 `yaml:"multiple" doc:"Of the median."`
	FloorSeconds float64 `yaml:"floor_seconds" doc:"Below it nothing is heavy, however short the others are."`
	LanesMax     int     `yaml:"lanes_max" min:"1" doc:"Heavy prefills under way on one worker at one time."`
	LightShare   float64 `yaml:"light_share" doc:"Share of the workers, rounded down, that have none, unless one has waited for longer than its prefill takes: 0.75 of eight workers leaves two for heavy work."`
}

// Tenants is who may use the router.
type Tenants struct {
	File    string `yaml:"file" change:"presence" doc:"File of tenants and the digests of their API keys (docs/TENANTS.md); changes of it are taken up while the router runs. Empty: nobody is asked for a key, and a client's own passes to engines without one of their own."`
	KeysEnv string `yaml:"keys_env" change:"restart" doc:"Environment variable with tenants and their keys in place of a file: NAME=KEY,NAME=KEY. They have no limits. Read at start. Empty: none."`
}

func defaultQueue() Queue {
	f, h, r := flow.DefaultOptions(), heavy.DefaultRule(), room.DefaultLimits()
	return Queue{
		Enabled: true, Class: "standard", BodyPriority: "ignore",
		Classes: []Class{
			{Name: "interactive", Order: string(flow.Shortest), WaitMax: time.Minute, Ceiling: 1, ShedFrom: 1, PreemptsAfter: time.Second},
			{Name: "standard", Order: string(flow.Shortest), WaitMax: 10 * time.Minute, Ceiling: 0.9, ShedFrom: 1},
			{Name: "batch", Order: string(flow.Shortest), WaitMax: time.Hour, Ceiling: 0.8, ShedFrom: 1},
		},
		RequestsMax: f.RequestsMax, BytesMax: Bytes(f.BytesMax), WorkMax: time.Hour, TenantRoom: f.TenantRoom, Ahead: f.Ahead, SizeMultiple: f.SizeMultiple,
		AgeAfter: f.AgeAfter, AgedShare: f.AgedShare, PreemptedMax: f.PreemptTimesMax, Depth: time.Duration(r.DepthSeconds * float64(time.Second)), Reserve: r.ReserveShare,
		Heavy: Heavy{h.Seconds, h.Multiple, h.FloorSeconds, r.HeavyLanesMax, r.LightShare},
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
		o.Classes = append(o.Classes, flow.Class{Name: c.Name, Order: flow.Order(c.Order), WaitMax: c.WaitMax, Ceiling: c.Ceiling, ShedFrom: c.ShedFrom,
			Preemptible: c.Preemptible, PreemptAfter: c.PreemptsAfter})
	}
	o.RequestsMax, o.BytesMax, o.SecondsMax, o.TenantRoom = q.RequestsMax, int64(q.BytesMax), q.WorkMax.Seconds(), q.TenantRoom
	o.Ahead, o.SizeMultiple, o.AgeAfter, o.AgedShare = q.Ahead, q.SizeMultiple, q.AgeAfter, q.AgedShare
	o.PreemptTimesMax = q.PreemptedMax
	return o
}

// HeavyRule is what the room calls it.
func (q Queue) HeavyRule() heavy.Rule {
	return heavy.Rule{Seconds: q.Heavy.Seconds, Multiple: q.Heavy.Multiple, FloorSeconds: q.Heavy.FloorSeconds}
}

// Room is what the scheduler calls it.
func (q Queue) Room() room.Limits {
	return room.Limits{DepthSeconds: q.Depth.Seconds(), HeavyLanesMax: q.Heavy.LanesMax, LightShare: q.Heavy.LightShare, ReserveShare: q.Reserve}
}

// tellPositionMin is how often somebody who waits is told so at most: each time costs a look at the queue and a write.
const tellPositionMin = 100 * time.Millisecond

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
	for _, share := range []struct {
		setting string
		value   float64
	}{{"queue.reserve", q.Reserve}, {"queue.aged_share", q.AgedShare}, {"queue.heavy.light_share", q.Heavy.LightShare}} {
		if !(share.value >= 0 && share.value <= 1) {
			v.wrong(share.setting, "%v is no share, want 0 to 1", share.value)
		}
	}
	if q.TellPosition > 0 && q.TellPosition < tellPositionMin {
		v.wrong("queue.tell_position", "%s is below the least, %s; 0 is never", q.TellPosition, tellPositionMin)
	}
	for _, name := range q.ClassNames() {
		if name == q.Class {
			return
		}
	}
	v.wrong("queue.class", "%q is no class; there are: %s", q.Class, strings.Join(q.ClassNames(), ", "))
}
