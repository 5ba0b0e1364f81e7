package proxy

import (
	"fmt"
	"net/http"

	"github.com/warmpath/warmpath/internal/complaint"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/refusal"
	"github.com/warmpath/warmpath/internal/upstream"
)

// tell tells a client that waits how it stands, as a comment in its stream. Its answer has begun then, with 200.
func (x *exchange) tell(s gate.Standing) {
	if !x.flushed {
		x.room.answer = intake.EventStream(x.room.answer[:0], x.facts.ID)
		x.down.WriteFields(http.StatusOK, x.room.answer)
		x.flushed, x.events, x.facts.Status = true, true, http.StatusOK
	}
	fmt.Fprintf(x.w, ": warmpath %s\n\n", s) // one who left is seen by its connection
	http.NewResponseController(x.w).Flush()
}

// tooLate takes a worker's answer that is no stream, where one has begun: its words reach the client as an error event.
func (x *exchange) tooLate(res *upstream.Response) error {
	if res.Status < 500 {
		x.p.gate.Succeeded(&x.try.Attempt)
	}
	x.release(outcome.Of(res.Status).ForFleet())
	body, _ := complaint.Read(res.Body, x.try.End) // what came of it
	return failed(refusal.Late(res.Status, x.try.Worker.ID, body))
}
