package metrics

import (
	"fmt"
	"testing"
	"time"
)

func TestTheQueueShowsByClass(t *testing.T) {
	s := New(func(s *State) {
		s.Queue = &QueueState{Bytes: 9, Fill: .5, Classes: []ClassState{{Class: "standard", Waiting: 3, Heavy: 1, OldestSeconds: 2.5, WorkSeconds: 7,
			Passed: 1, Placed: 2, Left: 3, TimedOut: 4, Full: 5, Crowded: 6, Shed: 7, Late: 8, Preempted: 9, WastedSeconds: 2.25}}}
	})
	s.KnowClass("standard")
	s.Waited("standard", "timed_out").Observe(20 * time.Second)
	s.Waited("invented", "because").Observe(time.Second)
	text := scrape(t, s)
	has(t, text, `warmpath_queue_bytes 9`, `warmpath_queue_fill_ratio 0.5`, `warmpath_queue_waiting_requests{class="standard"} 3`,
		`warmpath_queue_waiting_heavy_requests{class="standard"} 1`, `warmpath_queue_oldest_seconds{class="standard"} 2.5`, `warmpath_queue_work_seconds{class="standard"} 7`,
		`warmpath_queue_requests_total{class="standard",result="passed"} 1`, `warmpath_queue_requests_total{class="standard",result="placed"} 2`,
		`warmpath_queue_requests_total{class="standard",result="left"} 3`, `warmpath_queue_requests_total{class="standard",result="timed_out"} 4`,
		`warmpath_queue_refused_total{class="standard",reason="queue_full"} 5`, `warmpath_queue_refused_total{class="standard",reason="tenant_share"} 6`,
		`warmpath_queue_refused_total{class="standard",reason="shed"} 7`, `warmpath_queue_refused_total{class="standard",reason="deadline"} 8`,
		`warmpath_queue_preempted_total{class="standard"} 9`, `warmpath_queue_wasted_seconds_total{class="standard"} 2.25`,
		`warmpath_queue_wait_seconds_count{class="standard",result="timed_out"} 1`, `warmpath_queue_wait_seconds_sum{class="standard",result="timed_out"} 20`,
		`warmpath_queue_wait_seconds_count{class="standard",result="placed"} 0`, `warmpath_queue_wait_seconds_count{class="other",result="timed_out"} 1`)
	hasNot(t, text, "invented", "warmpath_tenant_")
}

func TestTenantsBeyondTheBoundAreCountedTogether(t *testing.T) {
	s := New(func(s *State) {
		for i := range tenantsMax + 2 {
			s.Tenants = append(s.Tenants, TenantState{Tenant: fmt.Sprintf("t%04d", i), InFlight: 1, TokensLastMinute: 2, Ran: 3, Refused: map[string]uint64{"in_flight": 4}})
		}
		s.Tenants = append(s.Tenants, TenantState{Tenant: "other", InFlight: 1})
	})
	text := scrape(t, s)
	has(t, text, `warmpath_tenant_inflight_requests{tenant="t0000"} 1`, `warmpath_tenant_tokens_last_minute{tenant="t1023"} 2`,
		`warmpath_tenant_inflight_requests{tenant="other"} 3`, `warmpath_tenant_requests_total{tenant="other"} 6`,
		`warmpath_tenant_refused_total{limit="in_flight",tenant="other"} 8`, `warmpath_tenant_refused_total{limit="spend_per_day",tenant="t0000"} 0`)
	hasNot(t, text, "t1024")
}
