package sched

import "github.com/warmpath/warmpath/internal/cost"

// decoding are seconds of a decode step: alone, for each sequence, and for each token of their contexts.
type decoding struct{ d0, d1, d2 float64 }

func (d *decoding) add(k *cost.Constants) { d.d0, d.d1, d.d2 = d.d0+k.D0, d.d1+k.D1, d.d2+k.D2 }

func (d *decoding) raise(k *cost.Constants) {
	d.d0, d.d1, d.d2 = max(d.d0, k.D0), max(d.d1, k.D1), max(d.d2, k.D2)
}

func (d *decoding) step(batch, context float64) float64 { return d.d0 + d.d1*batch + d.d2*context }

// price is phi: how many a second of the worker's prefill delays. That are as many as are in flight per worker, on a faster one in
// proportion more: it ends answers sooner, and is sent more. By the plain mean a cold prompt costs as many waiting people on a slow
// worker as on the fast ones that hold most of them, and the slow ones stay idle while those fill up.
func (s *Scheduler) price(c *candidate, j *judgement) float64 {
	mean := j.inFlight
	if !s.without.has(Share) {
		mean *= j.meanStep / c.k.Step(j.meanBatch())
	}
	if s.without.has(OwnPrice) {
		return mean
	}
	return min(mean, priceSteepest*c.inFlight+1)
}

// meanBatch is what is in flight per worker with this request, and its context.
func (j *judgement) meanBatch() (batch, context float64) {
	return j.inFlight + 1, j.inFlight*j.context + float64(j.tokens)
}

// tollFor wears off what draws requests to a fast worker as soon as they wait there for room: phi times that wait, but no more than what
// decoding there gains on the slowest worker's constants at the same load. The others that come later wait too, and what was cached there
// goes, for answers that would end sooner still elsewhere. Between equal workers there is nothing to gain and no toll, because a wait
// that is priced by phi without bound gives up hits where they are needed most. The wait is that of answers as long as they will be: on
// the mean those in flight are half done.
func (s *Scheduler) tollFor(c *candidate, j *judgement, context float64) float64 {
	gain := j.output*j.slow.step(c.inFlight+1, context+float64(j.tokens)) - c.decode
	if gain <= 0 || s.without.has(Toll) {
		return 0
	}
	return min(gain, c.price*s.waitForRoom(c, j, int(j.output*(c.inFlight/2+1))))
}

// waitForRoom is deficit * residence / held: what this request and those waiting there need beyond what is free, times the mean time a
// request stays, over what running requests hold. Slots and KV room are waited for at once, so the longer wait counts. growth is how
// many more tokens are held by then.
func (s *Scheduler) waitForRoom(c *candidate, j *judgement, growth int) float64 {
	if s.without.has(Room) {
		return 0
	}
	w := c.worker
	residence := c.load.ResidenceSeconds
	if residence == 0 {
		residence = c.prefill + c.decode
	}
	wait := 0.0
	if slots := float64(w.SlotsMax()); slots > 0 {
		wait = max(0, c.inFlight+1-slots) * residence / slots
	}
	most := w.KVTokensMax()
	if held := c.load.KVHeldTokens + growth; most > 0 && held+j.tokens > most {
		need := j.tokens
		if w.HoldsShared(c.sharedKey) {
			need = c.uncached
		}
		if deficit := held + need - most; deficit > 0 {
			// A request larger than all that runs cannot wait for more than all of it to end.
			wait = max(wait, float64(deficit)*residence/float64(max(1, need, min(held, most))))
		}
	}
	return wait
}
