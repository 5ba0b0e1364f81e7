package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/fleet"
)

// doctor runs `warmpath doctor --json` and decodes what it printed.
func doctor(t *testing.T, want int, args ...string) examined {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(append([]string{"doctor", "--json"}, args...), &stdout, &stderr); code != want {
		t.Errorf("%v: exit code %d, want %d: %s", args, code, want, stderr.String())
	}
	var found examined
	if err := json.Unmarshal([]byte(stdout.String()), &found); err != nil {
		t.Fatalf("%v in %q; %s", err, stdout.String(), stderr.String())
	}
	return found
}

// simulated is the address of a simulated engine, as `warmpath worker` runs it, slow enough to be looked at while it answers.
func simulated(t *testing.T, flags ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- workerCLI(ctx, write, append([]string{"--port", "0", "--time-scale", "0.2"}, flags...)...)
		write.Close()
	}()
	t.Cleanup(func() { stop(); <-ended })
	for lines := bufio.NewReader(read); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, url, ok := strings.Cut(strings.TrimSpace(line), " on "); ok {
			return url
		}
	}
}

func levels(t *testing.T, e examined, worker int) map[string]string {
	t.Helper()
	parts := map[string]string{}
	for _, c := range e.Workers[worker].Checks {
		parts[c.Part] = string(c.Level)
	}
	return parts
}

func TestDoctorFindsTheSimulatedEngineGood(t *testing.T) {
	url := simulated(t)
	found := doctor(t, exitOK, "--worker", url)
	parts := levels(t, found, 0)
	for _, part := range []string{"health", "models", "metrics", "kv size", "usage", "cached tokens", "cancellation"} {
		if parts[part] != "full" {
			t.Errorf("%s: %s: %+v", part, parts[part], found.Workers[0].Checks)
		}
	}
	if w := found.Workers[0]; w.Engine != "warmpath" || found.Requests != 3 || found.Verdict == "broken" {
		t.Errorf("%+v", found)
	}
	if quiet := doctor(t, exitOK, "--worker", url, "--no-requests"); quiet.Requests != 0 || levels(t, quiet, 0)["stream"] != "unseen" {
		t.Errorf("%+v", quiet)
	}
}

func TestDoctorTellsHowFarAWorkerCanBeKnownExactly(t *testing.T) {
	t.Parallel()
	heard := simulated(t, "--kv-events", "tcp://127.0.0.1:0", "--replay", "tcp://127.0.0.1:0")
	alone := simulated(t, "--kv-events", "tcp://127.0.0.1:0")
	found := doctor(t, exitOK, "--worker", heard, "--worker", alone, "--worker", simulated(t))
	for worker, want := range []string{"full", "partly", "none"} {
		if parts := levels(t, found, worker); parts["cache events"] != want || parts["tokens"] != "partly" {
			t.Errorf("worker %d: cache events are %s, want %s; tokens are %s", worker, parts["cache events"], want, parts["tokens"])
		}
		if verdict := map[bool]string{true: "good", false: "improvable"}[want == "full"]; found.Workers[worker].Verdict != verdict {
			t.Errorf("worker %d, whose cache events are %s: %s, want %s", worker, want, found.Workers[worker].Verdict, verdict)
		}
	}
	if text := fmt.Sprint(found.Workers[2].Checks); !strings.Contains(text, "start warmpath worker with --kv-events") {
		t.Error(text)
	}
	quiet := doctor(t, exitOK, "--worker", heard, "--events", "off")
	if parts := levels(t, quiet, 0); parts["cache events"] != "none" {
		t.Errorf("with --events off: %v", parts)
	}
}

func TestDoctorTellsADeadPortAndAWebServerFromAnEngine(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("<html>welcome</html>"))
	}))
	defer site.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	found := doctor(t, exitRuntime, "--worker", site.URL, "--worker", dead.URL, "--worker", simulated(t))
	if got := []string{found.Workers[0].Verdict, found.Workers[1].Verdict, found.Workers[2].Verdict}; got[0] != "broken" || got[1] != "broken" || got[2] == "broken" {
		t.Errorf("verdicts %v: %+v", got, found)
	}
	if site, dead := levels(t, found, 0), levels(t, found, 1); site["health"] != "full" || site["models"] != "broken" || dead["health"] != "broken" || dead["models"] != "unseen" {
		t.Errorf("web server %v, dead port %v", site, dead)
	}
	if found.Workers[0].Requests+found.Workers[1].Requests != 0 {
		t.Error("chat requests were sent to what is no engine")
	}
}

func TestWhereNoCacheEventsAreLookedForTheGainIsWhatThatKindOfEngineCanDo(t *testing.T) {
	f := func(engine, told, setting, found, gain string) {
		t.Helper()
		c := eventsCheck(nil, &checkup.Report{Engine: engine, Info: fleet.Info{Events: told}}, setting)
		if !strings.HasPrefix(c.Found, found) || !strings.HasPrefix(c.Gain, gain) || (c.Gain == "") != (gain == "") {
			t.Errorf("%s %s %s: %+v", engine, told, setting, c)
		}
	}
	f("sglang", "", config.EventsAuto, "not looked for", "start SGLang with --kv-events-config")
	f("sglang", `{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":7001}`, config.EventsAuto, "published, and not followed", "")
	f("vllm", "", config.EventsOff, "not looked for: they are switched off", "set exact.events: auto")
	f("llama.cpp", "", config.EventsAuto, "this kind of engine publishes none", "")
	f("llama.cpp", "", config.EventsOff, "this kind of engine publishes none", "")
	f("", "", config.EventsAuto, "not looked for", "")
}
