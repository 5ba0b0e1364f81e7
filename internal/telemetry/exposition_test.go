package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/leash"
)

// parse reads a page from r as if a response had brought it, whole when length >= 0.
func parse(wanted map[string]family, models []string, r io.Reader, length int64) (page, error) {
	x := exposition{wanted: wanted, models: models}
	err := x.read(&http.Response{Body: io.NopCloser(r), ContentLength: length}, 1<<20)
	p := page{counts: x.counts(), started: x.started()}
	p.blockTokens, p.kvTokens = x.sizes()
	return p, err
}

func TestRecordedPagesAreRead(t *testing.T) {
	for _, c := range []struct {
		file   string
		wanted map[string]family
		want   page
	}{
		{"vllm/metrics_saturated.txt", vllm, page{started: 1.79597837104e+09, blockTokens: 32, kvTokens: 16384, counts: fleet.Counts{
			Running: 6, Waiting: 8, KVUsage: 0.904109589041096, PrefixQueries: 18124, PrefixHits: 1152, PromptTokens: 18124,
			Has: fleet.HasRunning | fleet.HasWaiting | fleet.HasKVUsage | fleet.HasPrefixCache | fleet.HasPromptTokens}}},
		{"llamacpp/metrics.txt", llamacpp, page{counts: fleet.Counts{PromptTokens: 92,
			Has: fleet.HasRunning | fleet.HasWaiting | fleet.HasPromptTokens}}},
	} {
		b, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(c.wanted, []string{"tiny"}, bytes.NewReader(b), int64(len(b)))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.file, got, err, c.want)
		}
	}
}

func TestTEL01OldAndNewNamesMeanTheSameAndNeitherIsUnknown(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{
		{"new", "vllm:kv_cache_usage_perc 0.5\n", "0.5 true"},
		{"old", "vllm:gpu_cache_usage_perc 0.4\n", "0.4 true"},
		{"both, the old one frozen", "vllm:gpu_cache_usage_perc 0\nvllm:kv_cache_usage_perc 0.3\n", "0.3 true"},
		{"neither", "vllm:num_requests_running 3\n", "0 false"},
		{"not a number", "vllm:kv_cache_usage_perc NaN\n", "0 false"},
		{"negative", "vllm:kv_cache_usage_perc -1\n", "0 false"},
		{"above one", "vllm:kv_cache_usage_perc 7\n", "1 true"},
	} {
		p, err := parse(vllm, nil, strings.NewReader(c.text), int64(len(c.text)))
		if got := fmt.Sprint(p.counts.KVUsage, " ", p.counts.Has&fleet.HasKVUsage != 0); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.what, got, err, c.want)
		}
	}
	old := "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 4\nvllm:num_requests_swapped 2\nvllm:num_requests_waiting 1\n"
	p, err := parse(vllm, nil, strings.NewReader(old), int64(len(old)))
	if err != nil || p.counts.PrefixQueries != 10 || p.counts.PrefixHits != 4 || p.counts.Waiting != 3 {
		t.Errorf("old names: %+v, %v", p.counts, err)
	}
}

func TestTEL02RanksAreSummedAndOtherModelsDoNotCount(t *testing.T) {
	sample := func(rank, model string, running int) string {
		return fmt.Sprintf("vllm:num_requests_running{engine=%q,model_name=%q} %d.0\n", rank, model, running)
	}
	for _, c := range []struct {
		what, text, models, want string
	}{
		{"two ranks", sample("0", "m", 0) + sample("1", "m", 50), "m", "50 true"},
		{"several models, one ours", sample("0", "m", 4) + sample("0", "x", 30) + sample("1", "y", 2), "m", "4 true"},
		{"one model under a name that the list does not have", sample("0", "/models/m", 5) + sample("1", "/models/m", 6), "m", "11 true"},
		{"several models, none ours", sample("0", "x", 30) + sample("0", "y", 2), "m", "0 false"},
		{"several served names", sample("0", "a", 3) + sample("0", "b", 4), "a b", "7 true"},
		{"no label at all", "vllm:num_requests_running 8\n", "m", "8 true"},
	} {
		p, err := parse(vllm, strings.Fields(c.models), strings.NewReader(c.text), int64(len(c.text)))
		if got := fmt.Sprint(p.counts.Running, " ", p.counts.Has&fleet.HasRunning != 0); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.what, got, err, c.want)
		}
	}
	caches := `vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1` + "\n" + `vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="100"} 1` + "\n" +
		`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2` + "\n" + `vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6` + "\n"
	p, err := parse(vllm, []string{"m"}, strings.NewReader(caches), int64(len(caches)))
	if err != nil || p.kvTokens != 3200 || p.blockTokens != 16 || p.counts.KVUsage != 0.4 {
		t.Errorf("two ranks' caches: %+v, %v", p, err)
	}
}

func TestOddLinesAreReadOrPassedOver(t *testing.T) {
	for text, want := range map[string]int{
		"vllm:num_requests_running{a=\"}\",b=\"\\\"} 9\",model_name=\"m\"} 3\n":               3,
		"vllm:num_requests_running{model_name=\"m\",} 3 1795978440000\n":                      3,
		"vllm:num_requests_running\t3\r\n":                                                    3,
		"vllm:num_requests_running { model_name = \"m\" } 3\n":                                0, // no such spacing in the format: not ours
		"vllm:num_requests_running{model_name=\"m\" 3\n":                                      0,
		"vllm:num_requests_running{model_name=m} 3\n":                                         0,
		"vllm:num_requests_running\n":                                                         0,
		"vllm:num_requests_running 1e300\n":                                                   0,
		"vllm:num_requests_running three\nvllm:num_requests_running 3 # {trace=\"x\"} 1\n":    3,
		"# vllm:num_requests_running 9\n\n\nvllm:num_requests_running 3":                      3,
		"x" + strings.Repeat("y", 3*lineBytesMax) + " 1\nvllm:num_requests_running 3\n":       3,
		"vllm:num_requests_running{a=\"" + strings.Repeat("y", lineBytesMax) + "\"} 7\nz 1\n": 0,
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			if p, err := parse(vllm, []string{"m"}, r, int64(len(text))); err != nil || p.counts.Running != want {
				t.Errorf("%.60q: running %d, %v, want %d", text, p.counts.Running, err, want)
			}
		}
	}
}

func TestAPageCutShortOrTooLongIsAnError(t *testing.T) {
	cut := "vllm:num_requests_running 0\nvllm:num_requests_wai"
	if _, err := parse(vllm, nil, strings.NewReader(cut), -1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended by closing within a line: %v", err)
	}
	if _, err := parse(vllm, nil, io.MultiReader(strings.NewReader(cut), iotest.ErrReader(io.ErrUnexpectedEOF)), 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("connection broken: %v", err)
	}
	if _, err := parse(vllm, nil, strings.NewReader(strings.Repeat("a 1\n", 1<<18+1)), -1); err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("longer than the bound: %v", err)
	}
}

// bigPage is a page of 40,000 lines, 2 MB, nearly all of them histogram buckets.
func bigPage() []byte {
	var b bytes.Buffer
	for i := range 39_990 {
		fmt.Fprintf(&b, "vllm:time_to_first_token_seconds_bucket{engine=\"%d\",le=\"%d\",model_name=\"m\"} 5\n", i%8, i)
	}
	b.WriteString("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 7\n")
	return b.Bytes()
}

func TestTEL05ReadingALongPageAllocatesNothingPerLine(t *testing.T) {
	text := bigPage()
	models := []string{"m"}
	read := func() {
		x := exposition{wanted: vllm, models: models}
		err := x.read(&http.Response{Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text))}, 8<<20)
		if c := x.counts(); err != nil || c.Running != 7 {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if n := testing.AllocsPerRun(5, read); n > 10 {
		t.Errorf("%v allocations for 40,000 lines", n)
	}
}

func BenchmarkLongPage(b *testing.B) {
	text := bigPage()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		x := exposition{wanted: vllm, models: []string{"m"}}
		_ = x.read(&http.Response{Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text))}, 8<<20)
	}
}

func FuzzExposition(f *testing.F) {
	for _, s := range []string{
		"vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\n", "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n",
		"vllm:num_requests_running{model_name=\"a\\\"}\"} 1 2 # {x=\"y\"} 3", "llamacpp:requests_processing +Inf\r\n", "{} 1\n", "vllm:kv_cache_usage_perc{", "#\n\n\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer leash.Hold(t, len(b))()
		whole, errWhole := parse(vllm, []string{"m"}, bytes.NewReader(b), int64(len(b)))
		bytewise, errBytewise := parse(vllm, []string{"m"}, iotest.OneByteReader(bytes.NewReader(b)), int64(len(b)))
		if !reflect.DeepEqual(whole, bytewise) || (errWhole == nil) != (errBytewise == nil) {
			t.Errorf("whole %+v, %v; byte by byte %+v, %v", whole, errWhole, bytewise, errBytewise)
		}
		c := whole.counts
		if c.Running < 0 || c.Waiting < 0 || c.KVUsage < 0 || c.KVUsage > 1 || c.PrefixHits < 0 || whole.kvTokens < 0 || whole.blockTokens < 0 {
			t.Errorf("absurd: %+v", whole)
		}
	})
}

func TestEveryEnginesNamesAreToldByTheirBeginnings(t *testing.T) {
	for name, wanted := range map[string]map[string]family{"vllm": vllm, "llama.cpp": llamacpp, "sglang": sglang, "tensorrt": tensorrt, "gpu": gpuFamilies} {
		if headsOf(wanted) == nil {
			t.Errorf("%s: %d names cannot be told by their beginnings", name, len(wanted))
		}
	}
	many := map[string]family{}
	for i := range headsMax + 1 {
		many[fmt.Sprintf("%08d", i)] = running
	}
	if headsOf(many) != nil || headsOf(map[string]family{"short": running}) != nil {
		t.Error("names that cannot be told by their beginnings are")
	}
}
