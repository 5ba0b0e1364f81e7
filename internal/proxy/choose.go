package proxy

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/complaint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/refusal"
	"github.com/warmpath/warmpath/internal/upstream"
)

// choose has a model chosen for a name that stands for others, and writes it into the body.
func (x *exchange) choose() error {
	asked := x.p.choice.Means(x.req.Model)
	switch {
	case x.pick.Asked != "": // its model failed
	case !x.guest.MayUse(asked):
		return x.placeFailure(&models.ErrForbidden{Name: asked})
	case !x.scanned:
		return badRequest("model", "the model %q stands for others, and can be replaced in a JSON body only; name one that workers serve", asked)
	default:
		x.chained()
	}
	q := choice.Question{Req: &x.req, Want: x.want, Wait: x.waiting(), Session: x.hint(), Tier: x.in.Get(choice.HeaderTier)}
	q.TierMin, q.Left, q.Limited = x.p.desk.Means(x.facts.Started, &x.guest)
	if err := x.p.choice.Choose(&x.pick, q); err != nil {
		return x.placeFailure(refusal.Unpaid(err, x.p.desk, x.facts.Started, &x.guest))
	}
	body, err := choice.Rewrite(&x.req, x.text, x.pick.Model)
	if err == nil {
		err = x.share.Hold(len(body))
	}
	if err != nil {
		return x.brokenOff(err)
	}
	if x.packed { // it goes on in the clear
		x.packed, x.in = false, intake.Unpacked(x.in)
	}
	x.body, x.text, x.want.Model, x.facts.Asked, x.facts.Choice = body, body, x.pick.Model, x.pick.Asked, x.pick.Choice
	return nil
}

// elsewhere has another model chosen when the one that was chosen failed the request and no byte of an answer has left.
func (x *exchange) elsewhere(err error) bool {
	var f *failure
	if x.pick.Asked == "" || !errors.As(err, &f) || f.limit || x.sent > 0 || x.ctx.Err() != nil { // a tenant's own limit is no model's fault
		return false
	}
	why := choice.Failure{Kind: f.kind, Refused: x.facts.Refused != "", Nobody: f.outcome == outcome.NoWorker}
	var r *retryable
	if errors.As(err, &r) {
		why.Status = r.answered
	}
	if !x.pick.Failed(why) || x.key() != nil {
		return false
	}
	x.want.Tried, x.facts.Refused = x.want.Tried[:0], ""
	return true
}

// misfit keeps a worker's complaint that the request is longer than its model's context, where another model may do.
func (x *exchange) misfit(res *upstream.Response) error {
	if x.pick.Asked == "" || x.sent > 0 || res.Status != http.StatusBadRequest && res.Status != http.StatusRequestEntityTooLarge {
		return nil
	}
	body, err := complaint.Read(res.Body, x.try.End)
	if err != nil || len(body) == complaint.BytesMax || !complaint.TooLong(body) {
		res.Body = complaint.Again(res.Body, body)
		return nil
	}
	x.p.gate.Succeeded(&x.try.Attempt)
	x.release(fleet.Refused)
	x.held = &complaint.Reply{Status: res.Status, Header: res.Header, Body: body, Worker: x.try.Worker.ID}
	return &failure{status: res.Status, kind: llmapi.KindContext, outcome: outcome.ClientError, message: "the request is longer than the model's context"}
}

// named is the model that the request is for, as its client calls it.
func (x *exchange) named() string { return cmp.Or(x.pick.Asked, x.want.Model) }
