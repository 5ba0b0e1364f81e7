package intake

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/header"
)

const aTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

func fieldsOf(pairs ...string) (f header.Fields) {
	for i := 0; i < len(pairs); i += 2 {
		f.Add(pairs[i], pairs[i+1])
	}
	return f
}

func TestOnlyEndToEndFieldsGoOnToAWorker(t *testing.T) {
	in := fieldsOf("Connection", "close, X-Hop", "X-Hop", "1", "Connection", "x-other", "X-Other", "1", "Keep-Alive", "timeout=5", "Te", "trailers", "Upgrade", "h2c",
		"Content-Length", "9", "Expect", "100-continue", "X-Warmpath-Worker", "a", "X_warmpath_worker", "a", "X_Data_Parallel_Rank", "1", "X-Data-Parallel-Rank", "1",
		"X-Worker-Id", "a", "X-Custom", "1", "Authorization", "Bearer k", "X-Custom", "2", "Traceparent", aTrace, "Tracestate", "s", "X-Request-Id", "theirs")
	want := fieldsOf("X-Custom", "1", "Authorization", "Bearer k", "X-Custom", "2", "Traceparent", aTrace, "Tracestate", "s", "X-Request-Id", "id-1")
	if got := ToWorker(nil, in, Toward{RequestID: "id-1"}); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestAWorkersOwnKeyTakesThePlaceOfTheClients(t *testing.T) {
	in := fieldsOf("Authorization", "Bearer client", "X-Api-Key", "client", "Connection", "Authorization", "Traceparent", aTrace)
	got := ToWorker(nil, in, Toward{RequestID: "i", Key: "worker", Rank: "3"})
	if want := fieldsOf("Traceparent", aTrace, "X-Request-Id", "i", "Authorization", "Bearer worker", "X-Data-Parallel-Rank", "3"); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	got = ToWorker(nil, in, Toward{RequestID: "i"})
	if want := fieldsOf("Authorization", "Bearer client", "X-Api-Key", "client", "Traceparent", aTrace, "X-Request-Id", "i"); !slices.Equal(got, want) {
		t.Errorf("without a key: got %v\nwant %v", got, want)
	}
	client := fieldsOf("Authorization", "Bearer client", "X-Other", "1")
	if got := Credentials("", client); !slices.Equal(got, fieldsOf("Authorization", "Bearer client")) {
		t.Errorf("credentials %v", got)
	}
	if got := Credentials("worker", client); !slices.Equal(got, fieldsOf("Authorization", "Bearer worker")) {
		t.Errorf("credentials %v", got)
	}
}

func TestATraceThatIsNoneIsMadeAnewAndItsStateDropped(t *testing.T) {
	for _, in := range []header.Fields{
		nil, fieldsOf("Tracestate", "s"), fieldsOf("Traceparent", "x", "Tracestate", "s"), fieldsOf("Tracestate", "s", "Traceparent", aTrace, "Traceparent", aTrace),
	} {
		got := ToWorker(nil, in, Toward{RequestID: "i"})
		if v := got.Values(HeaderTrace); len(v) != 1 || !ValidTrace(v[0]) || v[0] == aTrace || got.Has("Tracestate") {
			t.Errorf("%v became %v", in, got)
		}
	}
}

func TestOnlyEndToEndFieldsComeBackFromAWorker(t *testing.T) {
	in := fieldsOf("Date", "today", "Content-Length", "5", "Connection", "keep-alive, X-Hop", "X-Hop", "1", "Keep-Alive", "timeout=5", "Access-Control-Allow-Origin", "*",
		"X-Warmpath-Worker", "forged", "X-Request-Id", "theirs", "Vary", "Accept", "X-A", "1", "X-A", "2")
	want := fieldsOf("Date", "today", "Content-Length", "5", "Vary", "Accept", "X-A", "1", "X-A", "2")
	if got := ToClient(nil, in); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
