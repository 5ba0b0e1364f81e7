package checkup

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// gains says what to change on an engine, by kind and part. What an engine cannot tell at all has no line.
//
// Sources: the help of llama-server (--metrics is off unless asked for, --slots and --cache-prompt are on), vLLM's engine arguments
// (its gauges come from the statistics that --disable-log-stats turns off; cached tokens are told only when asked for), SGLang's
// server arguments.
var gains = map[string]map[string]string{
	"llama.cpp": {
		"metrics":      "start llama-server with --metrics, which also tells what waits",
		"prefix cache": "start llama-server without --no-cache-prompt",
	},
	"vllm": {
		"metrics":       "start vllm serve without --disable-log-stats",
		"kv size":       "start vllm serve without --disable-log-stats",
		"cached tokens": "start vllm serve with --enable-prompt-tokens-details",
		"prefix cache":  "start vllm serve with --enable-prefix-caching",
	},
	"sglang": {
		"metrics":       "start SGLang with --enable-metrics",
		"cached tokens": "start SGLang with --enable-cache-report",
		"prefix cache":  "start SGLang without --disable-radix-cache",
	},
}

// gain is what gains more of a part on this engine; "" when nothing does.
func (s *seen) gain(part string) string { return gains[s.info.Engine][part] }

// checks are the verdicts, in the order in which one would mend things.
func (s *seen) checks() []Check {
	all := []Check{s.healthCheck(), s.modelsCheck(), s.metricsCheck(), s.kvCheck(), s.slotsCheck()}
	if s.worker.Ranks > 0 || s.ranks > 1 {
		all = append(all, s.ranksCheck())
	}
	if s.worker.GPUMetrics != "" {
		all = append(all, s.gpuCheck())
	}
	return append(all, s.streamCheck(), s.usageCheck(), s.cachedCheck(), s.leaveCheck())
}

const needsKey = "set this worker's key (workers[].key in the configuration)"

func (s *seen) healthCheck() Check {
	c := Check{Part: "health", Level: Full, Found: fmt.Sprintf("/health answers %d in %s", s.health.status, short(s.health.took))}
	switch status := s.health.status; {
	case s.health.err != nil:
		c.Level, c.Found = Broken, s.health.err.Error()
		c.Gain = "start the engine, or correct the address"
	case status == http.StatusServiceUnavailable:
		c.Level, c.Found, c.Without = Broken, "/health answers 503", "the engine is loading its model, or not well"
	case status >= 500 && status != http.StatusNotImplemented:
		c.Level = Broken
	case status/100 != 2:
		c.Level, c.Found = None, fmt.Sprintf("no /health (%d)", status)
		c.Without = "the list of models and the answers themselves tell whether it lives"
	}
	return c
}

func (s *seen) modelsCheck() Check {
	c := Check{Part: "models", Level: Full}
	var told *telemetry.Error
	switch {
	case s.health.err != nil && errors.As(s.infoErr, &told) && told.Unreachable():
		return Check{Part: "models", Level: Unseen, Found: "nobody answers"}
	case errors.As(s.infoErr, &told) && (told.Status == http.StatusUnauthorized || told.Status == http.StatusForbidden):
		c.Level, c.Found, c.Gain = Broken, s.infoErr.Error(), needsKey
		return c
	case s.infoErr != nil && s.worker.Model != "" && s.health.err == nil:
		c.Level, c.Found = Partly, s.infoErr.Error()
		c.Without = "the configured model, " + s.worker.Model + ", is taken to be served"
		return c
	case s.infoErr != nil:
		c.Level, c.Found = Broken, s.infoErr.Error()
		c.Without = "nothing shows that an engine answers here; one that does not list its models needs workers[].model"
		return c
	}
	var names []string
	unlimited := false
	for _, m := range s.info.Models {
		name := m.ID
		if m.ContextMax > 0 {
			name += fmt.Sprintf(" (%d tokens)", m.ContextMax)
		} else if m.Parent == "" {
			unlimited = true
		}
		names = append(names, name)
	}
	const shown = 5
	c.Found = strings.Join(names[:min(len(names), shown)], ", ")
	if len(names) > shown {
		c.Found += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	if unlimited {
		c.Level, c.Without = Partly, "the context length is not told, so a prompt too long for it is refused by the engine, not kept away"
	}
	if s.worker.Model != "" && !s.serves(s.worker.Model) {
		c.Level, c.Without = Partly, "the configured model, "+s.worker.Model+", is not among them"
	}
	return c
}

func (s *seen) serves(model string) bool {
	for _, m := range s.info.Models {
		if m.ID == model {
			return true
		}
		for _, a := range m.Aliases {
			if a == model {
				return true
			}
		}
	}
	return false
}

func (s *seen) metricsCheck() Check {
	c := Check{Part: "metrics", Level: Full, Found: fmt.Sprintf("%d running, %d waiting", s.counts.Running, s.counts.Waiting)}
	const own = "the router goes by its own counts: what others send there is not seen"
	var told *telemetry.Error
	switch has := s.counts.Has; {
	case s.infoErr != nil:
		c.Level, c.Found = Unseen, "no engine was recognised"
	case errors.Is(s.countsErr, telemetry.ErrNotScraped):
		c.Level, c.Found, c.Without = None, s.countsErr.Error(), own
	case errors.As(s.countsErr, &told) && (told.Status == http.StatusUnauthorized || told.Status == http.StatusForbidden):
		c.Level, c.Found, c.Without, c.Gain = None, s.countsErr.Error(), own, needsKey
	case s.countsErr != nil:
		c.Level, c.Found, c.Without, c.Gain = None, s.countsErr.Error(), own, s.gain("metrics")
	case has&fleet.HasRunning == 0 && has&fleet.HasWaiting == 0:
		c.Level, c.Found, c.Without, c.Gain = None, "the page shows neither running nor waiting requests", own, s.gain("metrics")
	case has&fleet.HasWaiting == 0:
		c.Level, c.Found = Partly, fmt.Sprintf("%d running", s.counts.Running)
		c.Without, c.Gain = "what waits there for others is not seen", s.gain("metrics")
	}
	return c
}

func (s *seen) kvCheck() Check {
	if s.info.KVTokensMax > 0 {
		found := fmt.Sprintf("%d tokens", s.info.KVTokensMax)
		if s.info.BlockTokens > 0 {
			found += fmt.Sprintf(" in blocks of %d", s.info.BlockTokens)
		}
		return Check{Part: "kv size", Level: Full, Found: found}
	}
	c := Check{Part: "kv size", Level: None, Found: "not told", Without: "a worker whose cache is full is not avoided before it queues"}
	if s.infoErr != nil {
		return Check{Part: "kv size", Level: Unseen, Found: "no engine was recognised"}
	}
	if s.info.SlotsMax > 0 {
		c.Without = "its batch slots stand for its room"
	} else if s.countsErr == nil {
		c.Gain = s.gain("kv size")
	}
	return c
}

func (s *seen) slotsCheck() Check {
	switch {
	case s.infoErr != nil:
		return Check{Part: "slots", Level: Unseen, Found: "no engine was recognised"}
	case s.info.SlotsMax > 0:
		return Check{Part: "slots", Level: Full, Found: fmt.Sprintf("%d at once", s.info.SlotsMax)}
	}
	return Check{Part: "slots", Level: None, Found: "not told", Without: "no cap on what is sent there, unless in_flight_max sets one"}
}

// ranksCheck is on an address with several data-parallel ranks behind it, or one that is said to have them.
func (s *seen) ranksCheck() Check {
	c := Check{Part: "ranks", Level: Full, Found: fmt.Sprintf("%d data-parallel ranks, told apart", s.ranks)}
	switch wanted := s.worker.Ranks; {
	case s.infoErr != nil || s.countsErr != nil:
		c.Level, c.Found = Unseen, fmt.Sprintf("%d are configured, the engine's counts could not be read", wanted)
	case s.ranks == 0:
		c.Level, c.Found = Partly, fmt.Sprintf("%d are configured, the engine's counts name none", wanted)
		c.Without = "the load that others put on each is not seen"
	case wanted == 0:
		c.Level, c.Found = Partly, fmt.Sprintf("%d data-parallel ranks, summed", s.ranks)
		c.Without, c.Gain = "each has a cache of its own, and which of them holds a prompt is left to chance", fmt.Sprintf("set this worker's ranks: %d (workers[].ranks in the configuration)", s.ranks)
	case wanted != s.ranks:
		c.Level, c.Found = Broken, fmt.Sprintf("%d are configured, the engine has %d", wanted, s.ranks)
		c.Gain = fmt.Sprintf("set this worker's ranks: %d (workers[].ranks in the configuration)", s.ranks)
	}
	return c
}

func (s *seen) gpuCheck() Check {
	if s.gpuErr != nil {
		return Check{Part: "gpus", Level: None, Found: s.gpuErr.Error(), Without: "the load that others put on the GPUs is not seen",
			Gain: "correct this worker's gpu_metrics or gpus (workers[] in the configuration)"}
	}
	c := Check{Part: "gpus", Level: Full, Found: fmt.Sprintf("%.0f %% busy", 100*s.gpu.GPUUsage)}
	if s.gpu.Has&fleet.HasGPUMemory != 0 {
		c.Found += fmt.Sprintf(", %.0f %% of their memory in use", 100*s.gpu.GPUMemory)
	}
	return c
}

// short is a duration as people say it.
func short(d time.Duration) string {
	if d < time.Millisecond {
		return "less than 1 ms"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
