package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/llmapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startMock(t *testing.T) *Mock {
	t.Helper()
	m, err := StartMock(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestBodiesAreJSONOfTheirSizeAllDistinctAndAThirdShareAPrefix(t *testing.T) {
	for _, size := range []int{smallBytes, 35_000} {
		b := newBodies(1, size, true)
		seen, heads := map[string]bool{}, map[string]int{}
		for serial := range uint64(300) {
			request, from := b.next(nil, serial)
			body := request[from:]
			if !json.Valid(body) || contentLength(request[:from]) != len(body) {
				t.Fatalf("%.200s", request)
			}
			if len(body) < size*9/10 || len(body) > size*11/10 {
				t.Errorf("%d bytes, want about %d", len(body), size)
			}
			var req llmapi.Request
			if err := req.Scan(llmapi.Chat, body); err != nil || !req.Stream {
				t.Fatal(err, req.Stream)
			}
			seen[string(body)] = true
			heads[string(body[:size/2-60])]++
		}
		shared := 0
		for _, n := range heads {
			if n > 1 {
				shared += n
			}
		}
		if len(seen) != 300 || shared < 90 || shared > 110 {
			t.Errorf("of 300 bodies %d are distinct and %d share a prefix, want 300 and 100", len(seen), shared)
		}
	}
}

func TestTheMockAnswersWholeAndInStreamsOfAnyPace(t *testing.T) {
	m := startMock(t)
	addr := strings.TrimPrefix(m.URLs()[1], "http://")
	serial := new(atomic.Uint64)
	for _, c := range []struct {
		how    behaviour
		stream bool
	}{{behaviour{}, false}, {behaviour{Events: 50}, true}, {behaviour{Events: 3, Pace: time.Millisecond, Hold: time.Millisecond}, true}} {
		m.behaviour.Store(&c.how)
		got := load{addr: addr, conns: 2, bodies: newBodies(1, smallBytes, c.stream), events: c.how.Events, serial: serial}.closed(t.Context(), 30*time.Millisecond)
		if got.err != nil || got.requests == 0 || len(got.latencies) != got.requests {
			t.Errorf("%+v: %d requests, %v", c.how, got.requests, got.err)
		}
	}
	counts, err := mockGet(m.URLs()[0], "/counts")
	if err != nil || bytes.HasPrefix(counts, []byte("[0,0]")) || !bytes.HasPrefix(counts, []byte("[0,")) {
		t.Errorf("%s %v: all requests went to the second worker", counts, err)
	}
}

func TestAUsageEventComesWhereTheOptionIsInTheBody(t *testing.T) {
	m := startMock(t)
	k := newClient(strings.TrimPrefix(m.URLs()[0], "http://"))
	defer k.close()
	body := `{"stream":true,"stream_options":{"include_usage":true}}`
	a, err := k.ask([]byte("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 55\r\n\r\n"+body), func(late time.Duration) {
		if late < 0 || late > time.Minute {
			t.Errorf("an event came %v late", late)
		}
	})
	if err != nil || a.events != 50 {
		t.Errorf("%d events, %v", a.events, err)
	}
}

func TestMediansLeaveOutWhatIsUnknownAndRatiosAreTakenInARound(t *testing.T) {
	if got := Median([]float64{3, math.NaN(), 1, 2}); got != 2 {
		t.Errorf("median %v", got)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is something")
	}
	if got := rounds([]float64{2, 9}, []float64{1, 3}, ratio); got[0] != 2 || got[1] != 3 {
		t.Errorf("ratios %v", got)
	}
}

func TestAReportPassesWhenEveryCheckDoes(t *testing.T) {
	r := Report{Part: "p", Sections: []Section{{Rows: []Row{{"x", []Value{Value(math.NaN())}}}, Checks: []Check{Most("a", 1, 2, "us"), least("b", 2, 2, "us")}}}}
	if !r.Passed() {
		t.Errorf("%+v", r)
	}
	r.Sections[0].Checks = append(r.Sections[0].Checks, least("c", 1, 2, "us"))
	if r.Passed() {
		t.Errorf("%+v", r)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"values":[null]`) {
		t.Errorf("%s %v", b, err)
	}
}

func TestADecisionIsMadeOnTheRoomsThatServe(t *testing.T) {
	got, err := decision{1_200, 8, 0}.run(t.Context(), 0)
	if err != nil || got.p50 <= 0 || got.place <= 0 || got.share < 0.5 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestAProfilesFolderIsMadeAndWhatGoesWrongIsSaid(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/pprof/profile" || r.URL.Query().Get("seconds") != "1" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, "profile")
	}))
	defer s.Close()
	folder := filepath.Join(t.TempDir(), "new", "folder")
	ours := &contestant{name: nameOurs, admin: s.URL}
	if err := ours.profile(Options{Pprof: folder}, "saturated", 0)(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(folder, "saturated.prof")); err != nil || string(b) != "profile" {
		t.Errorf("%q %v", b, err)
	}
	for what, c := range map[string]struct {
		seconds int
		folder  string
	}{"a refusal": {7, folder}, "a folder that cannot be": {1, filepath.Join(folder, "saturated.prof")}} {
		if err := ours.profile(Options{Pprof: c.folder}, "other", c.seconds)(); err == nil {
			t.Errorf("%s is not told", what)
		}
	}
	if err := (&contestant{name: nameNginx}).profile(Options{Pprof: folder}, "x", 1)(); err != nil {
		t.Error(err)
	}
}
