package contest

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The traces that are replayed, as they are called in the folder of Options.Traces.
const (
	mooncake  = "mooncake_conversation.jsonl"
	agentic   = "agentic_coding_sessions.jsonl.gz"
	azureCode = "AzureLLMInferenceTrace2023_code.csv"
	azureConv = "AzureLLMInferenceTrace2023_conv.csv"
)

// Point is one fleet under one load.
type Point struct {
	Family, Name string
	Trace        string // a file's name, or a generator with its settings
	Fleet        string
	Rate         float64
	AtOnce       int
	// Needed is how many workers the load keeps busy, where a prefix is hot; 0 elsewhere.
	Needed float64
	// SampleEvery is the time between two looks at the load of workers, where they are looked at.
	SampleEvery time.Duration
	// Judged points count in the standings. At NoReuse points nothing is shared, so that caches give nothing.
	Judged, NoReuse bool
	// Delay and Replicas make news late: 0 and 1 are a router that knows at once all there is. Fresh is the index of the same point
	// where they are so; -1 of such a point itself.
	Delay    time.Duration
	Replicas int
	Fresh    int
	quick    bool
}

// carried is the rate of arrivals, in multiples of the trace's own, that keeps one worker just busy: with so much nobody's queue ends.
// It is found from the even half, all of whose requests are queued at once, so that no worker of the fleet waits, and is the half's length
// over the time until all are done and over the workers:
//
//	warmpath replay TRACE --half even --fleet PROFILE:4 --rate 1e6 --policies POLICY
//
// POLICY is least-prefill for Mooncake's (1,800 s) and least-tokens for Azure's (code 1,380 s, conv 1,764 s). In order of time a little more is
// found cached than in such a heap, on large fleets the most: Mooncake's are a few percent less loaded than their share says.
var carried = map[string]map[string]float64{
	mooncake: {
		"h100-8b": 0.413, "h100-32b-tp2": 0.205, "h100-70b-tp4": 0.192,
		"a100-8b": 0.150, "a100-32b-tp2": 0.081, "a100-70b-tp4": 0.085,
	},
	azureCode: {"h100-8b": 4.84, "h100-70b-tp4": 1.40},
	azureConv: {"h100-8b": 4.24, "h100-70b-tp4": 1.47},
}

// loads are the shares of what a fleet carries at which traces are replayed.
var loads = []struct {
	name  string
	share float64
}{{"light", 0.3}, {"medium", 0.6}, {"near", 0.9}}

// hotCarried is the same for a hot prefix of so many tokens, in requests a second of one h100-70b-tp4 that holds it:
//
//	warmpath replay hot:shared=N,requests=10000,rate=1e6 --fleet h100-70b-tp4:2 --policies round-robin
var hotCarried = []struct {
	tokens int
	rate   float64
}{{8000, 19.7}, {32000, 8.35}, {50000, 5.83}}

// hotTime is how long a hot prefix is asked about: many times its prefill, 5.4 s at the longest.
const hotTime = time.Minute

// scenarios are all points in the order in which they are run.
func scenarios() (all []Point) {
	for _, model := range []string{"h100-8b", "h100-32b-tp2", "h100-70b-tp4"} {
		for _, workers := range []int{4, 8, 12, 16} {
			all = append(all, atLoads("mooncake", mooncake, fmt.Sprintf("%s:%d", model, workers), carried[mooncake][model]*float64(workers))...)
		}
	}
	for _, fleet := range []string{"h100-8b:8", "h100-32b-tp2:12", "h100-70b-tp4:8"} {
		for _, atOnce := range []int{16, 32, 48, 80} {
			all = append(all, Point{Family: "agentic", Name: fmt.Sprintf("%s/%d", fleet, atOnce), Trace: agentic, Fleet: fleet, Rate: 1, AtOnce: atOnce})
		}
	}
	all = append(all, ladder("ladder", "h100-32b-tp2:8", 5, 8, 10, 12, 14, 16, 18)...)
	for _, trace := range []struct{ family, file string }{{"azure-code", azureCode}, {"azure-conv", azureConv}} {
		for _, fleet := range []struct {
			profile string
			workers int
		}{{"h100-8b", 4}, {"h100-70b-tp4", 8}} {
			name := fmt.Sprintf("%s:%d", fleet.profile, fleet.workers)
			all = append(all, atLoads(trace.family, trace.file, name, carried[trace.file][fleet.profile]*float64(fleet.workers))...)
		}
	}
	for _, model := range []string{"8b", "70b-tp4"} {
		both := carried[mooncake]["h100-"+model] + carried[mooncake]["a100-"+model]
		all = append(all, atLoads("mixed", mooncake, fmt.Sprintf("h100-%s:4,a100-%s:4", model, model), 4*both)...)
	}
	all = append(all, ladder("mixed", "h100-32b-tp2:4,a100-32b-tp2:4", 4, 7, 10)...)
	all = append(all, hot()...)
	for i := range all {
		p := &all[i]
		p.Judged, p.NoReuse = true, p.Trace == azureCode || p.Trace == azureConv
	}
	all = append(all, uniform()...)
	for i := range all {
		all[i].Name = all[i].Family + "/" + all[i].Name
		all[i].Fresh = -1
		all[i].Replicas = 1
	}
	all = append(all, late(all)...)
	markQuick(all)
	return all
}

// atLoads replays a trace at every load; full is the rate that the fleet just carries.
func atLoads(family, trace, fleet string, full float64) (all []Point) {
	for _, load := range loads {
		rate := math.Round(1e4*full*load.share) / 1e4
		all = append(all, Point{Family: family, Name: fleet + "/" + load.name, Trace: trace, Fleet: fleet, Rate: rate})
	}
	return all
}

// ladder is 150 groups of 5 prompts, at growing rates in requests a second.
func ladder(family, fleet string, rates ...int) (all []Point) {
	for _, rate := range rates {
		all = append(all, Point{
			Family: family, Name: fmt.Sprintf("%s/groups at %d", fleet, rate), Fleet: fleet, Rate: float64(rate),
			Trace: "groups:groups=150,prompts=5,system=6000,question=1200,output=1000,rate=1",
		})
	}
	return all
}

// hot is one prefix that everybody asks about, from cold.
func hot() (all []Point) {
	for _, prefix := range hotCarried {
		for _, workers := range []int{2, 4, 8} {
			for _, percent := range []int{30, 60, 85, 100} {
				needed := float64(workers*percent) / 100
				rate := needed * prefix.rate
				all = append(all, Point{
					Family: "hot", Name: fmt.Sprintf("%dk/%d/%d%%", prefix.tokens/1000, workers, percent),
					Trace: fmt.Sprintf("hot:shared=%d,question=200,output=100,requests=%.0f,rate=%.4g", prefix.tokens, rate*hotTime.Seconds(), rate),
					Fleet: fmt.Sprintf("h100-70b-tp4:%d", workers), Rate: 1, Needed: needed, SampleEvery: hotTime / 300,
				})
			}
		}
	}
	return all
}

// uniform is 2,048 clients who each ask again as soon as they have their answer, prompts without reuse.
func uniform() (all []Point) {
	for _, u := range []struct {
		fleet          string
		prompt, output int
	}{{"h100-8b:8", 4000, 400}, {"h100-8b:16", 1000, 200}, {"h100-70b-tp4:16", 2000, 300}} {
		all = append(all, Point{
			Family: "uniform", Name: fmt.Sprintf("%s/%d+%d", u.fleet, u.prompt, u.output), Fleet: u.fleet, Rate: 1, AtOnce: 2048, NoReuse: true,
			Trace: fmt.Sprintf("uniform:requests=12288,at-once=2048,prompt=%d,output=%d", u.prompt, u.output),
		})
	}
	return all
}

// lateAt are the points that are run with late news too.
var lateAt = []string{"mooncake/h100-70b-tp4:8/medium", "agentic/h100-8b:8/48", "ladder/h100-32b-tp2:8/groups at 10", "hot/8k/4/60%"}

// late repeats some points with what is known of engines half a second late, and with four routers that know of each other only what the
// engines' counts tell.
func late(all []Point) (more []Point) {
	for i, p := range all {
		if !slices.Contains(lateAt, p.Name) {
			continue
		}
		p.Fresh, p.Judged, p.NoReuse, p.Needed, p.SampleEvery = i, false, false, 0, 0
		name := p.Name
		p.Family, p.Name, p.Delay = "late", "late/"+name+"/seen 0.5 s late", 500*time.Millisecond
		more = append(more, p)
		p.Family, p.Name, p.Delay, p.Replicas = "routers", "routers/"+name+"/of 4", 0, 4
		more = append(more, p)
	}
	return more
}

// quickSteps is which points of a family a quick verdict takes: every so many, so that fleets and loads take turns.
var quickSteps = map[string]int{"mooncake": 5, "agentic": 5, "ladder": 2, "azure-code": 5, "azure-conv": 5, "mixed": 4, "hot": 5, "uniform": 3, "late": 3, "routers": 3}

func markQuick(all []Point) {
	seen := map[string]int{}
	for i := range all {
		p := &all[i]
		p.quick = seen[p.Family]%quickSteps[p.Family] == 0
		seen[p.Family]++
	}
	for i := range all {
		if p := &all[i]; p.quick && p.Fresh >= 0 {
			all[p.Fresh].quick = true
		}
	}
}
