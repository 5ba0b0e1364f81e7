package telemetry

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// toldLog is what the log was told, without times: level and message, a line each.
type toldLog struct{ strings.Builder }

func (l *toldLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey || a.Key == slog.MessageKey || a.Key == "kv_tokens" {
			return a
		}
		return slog.Attr{}
	}}))
}

// sized is a page that also tells the size of the KV cache.
var sized = says("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n")

func TestTheLogTellsOfChangesOnce(t *testing.T) {
	loading := status(http.StatusServiceUnavailable)
	for name, c := range map[string]struct {
		goes func(n *network, f *fakeEngine)
		want string
	}{
		"nothing happens": {func(*network, *fakeEngine) { elapse(20 * time.Second) },
			`level=INFO msg="worker found" kv_tokens=16000` + "\n"},
		"metrics fail now and then": {func(_ *network, f *fakeEngine) {
			for range 10 {
				f.set("/metrics", hangs)
				elapse(3 * time.Second)
				f.set("/metrics", sized)
				elapse(3 * time.Second)
			}
		}, `level=INFO msg="worker found" kv_tokens=16000` + "\n"},
		"metrics fail for long, in turns": {func(_ *network, f *fakeEngine) {
			f.set("/metrics", hangs)
			elapse(20 * time.Second)
			f.set("/metrics", sized)
			elapse(20 * time.Second)
		}, `level=INFO msg="worker found" kv_tokens=16000` + "\n" + `level=WARN msg="no telemetry: the router goes by its own counts"` + "\n" + `level=INFO msg="telemetry works again"` + "\n"},
		"it loads for long": {func(_ *network, f *fakeEngine) {
			f.set("/metrics", loading)
			f.set("/v1/models", loading)
			elapse(time.Minute)
		}, `level=INFO msg="worker found" kv_tokens=16000` + "\n" + `level=WARN msg="no telemetry: the router goes by its own counts"` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network, heard *news) {
				f, log := fakeVLLM(), &toldLog{}
				f.set("/metrics", sized)
				defer n.serve("a:1", f)()
				m := New(heard.options(Options{dial: n.dial, Log: log.logger()}))
				m.Watch(Target{ID: "a", URL: "http://a:1"})
				stop := runs(t, m)
				elapse(5 * time.Second)
				c.goes(n, f)
				stop()
				if got := log.String(); got != c.want {
					t.Errorf("the log says\n%swant\n%s", got, c.want)
				}
			})
		})
	}
}

func TestTheLogTellsOnceOfAWorkerThatCannotBeReached(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		log := &toldLog{}
		m := New(heard.options(Options{dial: n.dial, Log: log.logger()}))
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		stop := runs(t, m)
		elapse(time.Minute)
		f := fakeVLLM()
		f.set("/metrics", sized)
		leave := n.serve("a:1", f)
		elapse(10 * time.Second)
		leave()
		elapse(time.Minute)
		stop()
		want := `level=WARN msg="worker cannot be reached"` + "\n" + `level=INFO msg="worker found" kv_tokens=16000` + "\n" +
			`level=INFO msg="telemetry works again"` + "\n" + `level=WARN msg="worker cannot be reached"` + "\n"
		if got := log.String(); got != want {
			t.Errorf("the log says\n%swant\n%s", got, want)
		}
	})
}
