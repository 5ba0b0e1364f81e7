package collector

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABatchOfOTLPsOwnJSONIsRead(t *testing.T) {
	c, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for body, want := range map[string]int{
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"n","kind":2}]}]}]}`: http.StatusOK,
		`{`: http.StatusBadRequest,
	} {
		r, err := client.Post(c.HTTP+"/v1/traces", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d", body, r.StatusCode)
		}
	}
	if s := c.Spans(); len(s) != 1 || s[0].Trace != "0af7651916cd43dd8448eb211c80319c" || s[0].ID != "b7ad6b7169203331" || s[0].Kind != "SPAN_KIND_SERVER" {
		t.Errorf("%+v", s)
	}
}
