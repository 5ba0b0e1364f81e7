package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatTenantsSpendOnTheFormerProcessCountsOnTheSuccessor(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	w := newWorker(t, func(c *call) {
		if c.wantsStream() {
			c.events()
			c.send(deltaOf("a"))
			<-goOn
			c.send(deltaOf("b") + usageEvent(2000, 20, 0) + "data: [DONE]\n\n")
			return
		}
		metered(c, 1000, 10, 0)
	})
	tenants := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(tenants, []byte("tenants:\n"+lineOf(t, "search", searchKey, ", spend_per_day: 1")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, workersOf(w)+fmt.Sprintf("tenants: {file: %q}\nprices: [{model: m, price: {input: 1, output: 10}}]\n", tenants), nil)
	p.ready()
	h := newClient(t)
	ask := func(stream bool) *http.Response {
		q, err := http.NewRequest(http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(chat("x", stream)))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+searchKey)
		r, err := h.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Body.Close() })
		return r
	}
	spent := func() float64 {
		var s routerState
		if err := json.Unmarshal([]byte(read(h.Get(p.admin+"/state")).body), &s); err != nil || len(s.Tenants) != 1 {
			return -1
		}
		return s.Tenants[0].SpentToday
	}
	io.Copy(io.Discard, ask(false).Body)
	before := millionths(1000 + 10*10)
	eventually(t, "the first request to be charged", func() bool { return near(spent(), before) })
	stream := ask(true)
	if _, err := p.upgrade(); err != nil {
		t.Fatal(err)
	}
	h.CloseIdleConnections()
	eventually(t, "the successor to answer", func() bool { return strings.Contains(p.log(), "the successor has taken over") })
	close(goOn) // this one ends on the former process
	if text, err := io.ReadAll(stream.Body); err != nil || !strings.Contains(string(text), "[DONE]") {
		t.Errorf("%v: %s", err, text)
	}
	h.CloseIdleConnections()
	<-p.ended
	want := before + millionths(2000+10*20)
	eventually(t, "what was spent on the former process to count", func() bool { return near(spent(), want) })
}
