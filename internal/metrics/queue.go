package metrics

import "github.com/prometheus/client_golang/prometheus"

// What a scrape shows of the queue, and of those who ask.

// QueueState is what waits for room on a worker.
type QueueState struct {
	Bytes   int64
	Fill    float64 // 0..1
	Classes []ClassState
}

// ClassState is one priority class. Counts are totals since the start.
type ClassState struct {
	Class          string
	Waiting, Heavy int
	OldestSeconds  float64
	WorkSeconds    float64

	Passed, Placed, Left, TimedOut uint64
	Full, Crowded, Shed, Late      uint64 // refused
	Preempted                      uint64
	WastedSeconds                  float64
}

// TenantState is one tenant with a key.
type TenantState struct {
	Tenant                     string
	InFlight, TokensLastMinute int
	SpentToday                 float64
	Ran                        uint64
	Refused                    map[string]uint64 // by limit
}

// tenantsMax bounds the tenants that have series of their own.
const tenantsMax = 1024

// KnowClass gives a class of the queue its own label. It is called before the first request.
func (s *Set) KnowClass(name string) { s.waits.add(name) }

// waits are a class' histograms, by place in waitEnds.
type waits [3]Histogram

func newWaits(of *prometheus.HistogramVec, class string) *waits {
	w := new(waits)
	for i, result := range waitEnds {
		w[i] = Histogram{of.WithLabelValues(class, result)}
	}
	return w
}

// Waited returns the histogram of a known class' waits, or that of "other", that ended so. result is a word of the catalogue; any other counts as
// the last, timed_out.
func (s *Set) Waited(class, result string) Histogram {
	w, _ := s.waits.get(class)
	return w[min(place(waitEnds, result), len(w)-1)]
}

func emitQueue(emit emitter, q *QueueState) {
	if q == nil {
		return
	}
	emit("warmpath_queue_bytes", float64(q.Bytes))
	emit("warmpath_queue_fill_ratio", q.Fill)
	for i := range q.Classes {
		c := &q.Classes[i]
		emit("warmpath_queue_waiting_requests", float64(c.Waiting), c.Class)
		emit("warmpath_queue_waiting_heavy_requests", float64(c.Heavy), c.Class)
		emit("warmpath_queue_oldest_seconds", c.OldestSeconds, c.Class)
		emit("warmpath_queue_work_seconds", c.WorkSeconds, c.Class)
		emitEach(emit, "warmpath_queue_requests_total", c.Class, queueEnds, c.Passed, c.Placed, c.Left, c.TimedOut)
		emit("warmpath_queue_preempted_total", float64(c.Preempted), c.Class)
		emit("warmpath_queue_wasted_seconds_total", c.WastedSeconds, c.Class)
		emitEach(emit, "warmpath_queue_refused_total", c.Class, refusals, c.Full, c.Crowded, c.Shed, c.Late)
	}
}

// emitTenants shows the first tenantsMax tenants, and the others together.
func emitTenants(emit emitter, all []TenantState) {
	others := TenantState{Tenant: Other, Refused: map[string]uint64{}}
	for i := range all {
		t := &all[i]
		if i < tenantsMax && t.Tenant != Other {
			emitTenant(emit, t)
			continue
		}
		others.InFlight, others.TokensLastMinute, others.Ran = others.InFlight+t.InFlight, others.TokensLastMinute+t.TokensLastMinute, others.Ran+t.Ran
		others.SpentToday += t.SpentToday
		for limit, n := range t.Refused {
			others.Refused[limit] += n
		}
	}
	if len(all) > 0 {
		emitTenant(emit, &others)
	}
}

func emitTenant(emit emitter, t *TenantState) {
	emit("warmpath_tenant_inflight_requests", float64(t.InFlight), t.Tenant)
	emit("warmpath_tenant_tokens_last_minute", float64(t.TokensLastMinute), t.Tenant)
	emit("warmpath_tenant_spent_today", t.SpentToday, t.Tenant)
	emit("warmpath_tenant_requests_total", float64(t.Ran), t.Tenant)
	for _, limit := range tenantLimits {
		emit("warmpath_tenant_refused_total", float64(t.Refused[limit]), t.Tenant, limit)
	}
}
