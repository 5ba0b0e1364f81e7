//go:build e2e

// Package e2e runs the built binary in front of three real llama.cpp servers, with the official Python clients as its users.
//
//	make e2e
package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stack is a router and its engines.
type stack struct {
	data, admin string
	engines     []string
	log         string // of decisions
	router      *process
}

func startStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{log: filepath.Join(t.TempDir(), "decisions.jsonl")}
	flags := []string{"serve", "--policy", "warm-cost", "--decision-log", s.log}
	for n := range 3 {
		_, url := startEngine(t, n)
		s.engines = append(s.engines, url)
		flags = append(flags, "--worker", url)
	}
	for _, url := range s.engines {
		eventually(t, url+" has loaded its model", startWait, func() bool { return get(url+"/health") != "" })
	}
	listen, admin := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	s.data, s.admin = "http://"+listen, "http://"+admin
	s.router = start(t, "warmpath", router, []string{"XDG_STATE_HOME=" + t.TempDir()}, append(flags, "--listen", listen, "--admin", admin)...)
	eventually(t, "warmpath is ready", startWait, func() bool { return get(s.data+"/readyz") != "" })
	eventually(t, "warmpath knows the model of all engines", startWait, func() bool {
		return strings.Contains(get(s.data+"/v1/models"), modelName) && s.slotsKnown() == len(s.engines)
	})
	return s
}

// slotsKnown is the number of engines whose slots can be asked and are all free.
func (s *stack) slotsKnown() int {
	free := 0
	for _, url := range s.engines {
		if processing(url) == 0 {
			free++
		}
	}
	return free
}

// processing is the number of an engine's slots at work; -1 when it does not say.
func processing(engine string) int {
	var all []struct {
		Busy bool `json:"is_processing"`
	}
	if err := json.Unmarshal([]byte(get(engine+"/slots")), &all); err != nil || len(all) != slots {
		return -1
	}
	busy := 0
	for _, slot := range all {
		if slot.Busy {
			busy++
		}
	}
	return busy
}

// metric is the sum of all series of a name on the admin port.
func (s *stack) metric(t *testing.T, name string) float64 {
	t.Helper()
	sum, found := 0.0, false
	lines := bufio.NewScanner(strings.NewReader(get(s.admin + "/metrics")))
	for lines.Scan() {
		line := lines.Text()
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+value, true
	}
	if !found {
		t.Fatalf("%s/metrics has no %s", s.admin, name)
	}
	return sum
}

// script runs one of the Python scripts and reads the JSON object that it prints.
func script(t *testing.T, into any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if decode(t, exec.CommandContext(ctx, python, args...), into); t.Failed() {
		t.FailNow()
	}
}

func TestRealEnginesThroughServe(t *testing.T) {
	s := startStack(t)
	t.Run("ShuffledConversationsFindTheirPromptWarm", s.conversations)
	t.Run("TheOpenAIClientChats", func(t *testing.T) { s.check(t, "chat_openai") })
	t.Run("TheAnthropicClientChats", func(t *testing.T) { s.check(t, "chat_anthropic") })
	t.Run("ErrorsComeInTheClientsDialect", func(t *testing.T) { s.check(t, "errors") })
	t.Run("AClientThatLeavesFreesTheSlot", s.cancel)
	t.Run("NothingIsLeftInFlight", func(t *testing.T) {
		eventually(t, "no request in flight", 5*time.Second, func() bool { return s.metric(t, "warmpath_worker_inflight_requests") == 0 })
	})
	if code := s.router.stop(t); code != 0 {
		t.Errorf("warmpath ended with %d on SIGTERM, want 0", code)
	}
}

func (s *stack) check(t *testing.T, name string) {
	var seen map[string]any
	script(t, &seen, "clients.py", name, s.data)
	for key, value := range seen {
		t.Logf("%s: %v", key, value)
	}
}

func (s *stack) conversations(t *testing.T) {
	const seed, conversations, turns = 1, 12, 3
	var said struct {
		Turns []struct {
			Turn, Prompt, Cached int
			Seconds              float64
		}
	}
	script(t, &said, "conversations.py", s.data, "--conversations", fmt.Sprint(conversations), "--turns", fmt.Sprint(turns), "--seed", fmt.Sprint(seed))
	prompt, cached, seconds := make([]int, turns), make([]int, turns), make([]float64, turns)
	for _, turn := range said.Turns {
		prompt[turn.Turn] += turn.Prompt
		cached[turn.Turn] += turn.Cached
		seconds[turn.Turn] += turn.Seconds
	}
	for turn := range turns {
		share := float64(cached[turn]) / float64(prompt[turn])
		t.Logf("seed %d, turn %d: %d of %d prompt tokens cached (%.0f %%), %.2f s each",
			seed, turn+1, cached[turn], prompt[turn], 100*share, seconds[turn]/conversations)
		if turn > 0 && share < 0.6 {
			t.Errorf("turn %d found %.0f %% of its prompt cached, want at least 60 %%", turn+1, 100*share)
		}
	}
	predicted, reported := s.metric(t, "warmpath_cached_tokens_predicted_total"), s.metric(t, "warmpath_cached_tokens_reported_total")
	t.Logf("cached tokens predicted %.0f, reported %.0f", predicted, reported)
	if reported == 0 || predicted < 0.8*reported || predicted > 1.2*reported {
		t.Errorf("cached tokens predicted %.0f and reported %.0f differ by more than 20 %%", predicted, reported)
	}

	var made []decision
	eventually(t, "the decision log has every request", 5*time.Second, func() bool {
		made = s.decisions(t)
		return len(made) == conversations*turns
	})
	byWorker, byHit := map[string]int{}, map[string]int{}
	for _, d := range made {
		byWorker[d.Worker]++
		byHit[d.Hit]++
	}
	t.Logf("decisions by worker %v, by hit %v", byWorker, byHit)
	if len(byWorker) != len(s.engines) {
		t.Errorf("%d of %d workers were used: %v", len(byWorker), len(s.engines), byWorker)
	}
}

// decision is what the test reads of a line of the decision log.
type decision struct{ Worker, Hit string }

func (s *stack) decisions(t *testing.T) []decision {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	var made []decision
	for line := range strings.Lines(string(text)) {
		var d decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("decision log: %v in %s", err, line)
		}
		made = append(made, d)
	}
	return made
}

func (s *stack) cancel(t *testing.T) {
	before := s.metric(t, "warmpath_cancellations_total")
	s.check(t, "cancel")
	left := time.Now()
	eventually(t, "every slot is free again", 5*time.Second, func() bool { return s.slotsKnown() == len(s.engines) })
	t.Logf("slots free %v after the client had gone", time.Since(left).Round(time.Millisecond))
	if after := s.metric(t, "warmpath_cancellations_total"); after != before+1 {
		t.Errorf("warmpath_cancellations_total went from %.0f to %.0f, want one more", before, after)
	}
}
