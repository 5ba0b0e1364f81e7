package kvfeed

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// sayAt publishes an empty batch that was made at a time, by the engine's own clock.
func (e *fakeEngine) sayAt(made time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	payload := kvevent.AppendBatch(nil, float64(made.UnixNano())/1e9, 0, nil)
	e.log = append(e.log, payload)
	e.pub.Send([]byte("kv"), number(len(e.log)-1), payload)
}

func TestHowLateEventsComeIsToldThoughTheClocksDiffer(t *testing.T) {
	const off = -3 * time.Hour // the engine's clock
	e := startEngine(t)
	m, _ := manager(t, quick())
	m.Follow(e.target("a", 0))
	until(t, "it to be heard", func() bool { return m.Statuses()[0].State == kvevent.Exact })
	said := func() uint64 { e.mu.Lock(); defer e.mu.Unlock(); return uint64(len(e.log)) }
	taken := func() Status {
		until(t, "all to be taken in", func() bool { return m.Statuses()[0].Next == said() })
		return m.Statuses()[0]
	}
	for range 20 {
		e.publish(1, kvevent.Event{Kind: kvevent.Cleared}) // its stamp is of 1970
	}
	if s := taken(); s.Stamped {
		t.Errorf("told by events that have no time: %+v", s)
	}
	for range 20 {
		e.sayAt(time.Now().Add(off))
		taken()
	}
	s := taken()
	if !s.Stamped || s.Lag < 0 || s.Lag > 10*time.Second || s.ClockOffset < -off || s.ClockOffset > -off+10*time.Second {
		t.Errorf("in time: lag %v, offset %v, %v", s.Lag, s.ClockOffset, s.Stamped)
	}
	e.sayAt(time.Now().Add(off - time.Minute))
	if s := taken(); s.Lag < 50*time.Second {
		t.Errorf("a minute late: %v", s.Lag)
	}
}

func TestAnotherConnectionIsAnotherClock(t *testing.T) {
	e := startEngine(t)
	m, _ := manager(t, quick())
	m.Follow(e.target("a", 0))
	until(t, "it to be heard", func() bool { return m.Statuses()[0].State == kvevent.Exact })
	stamped := func() bool { return m.Statuses()[0].Stamped }
	for range 20 {
		e.sayAt(time.Now().Add(time.Hour))
	}
	until(t, "a lag", stamped)
	endpoint := e.pub.Endpoint()
	e.pub.Close()
	until(t, "the connection to be gone", func() bool { return m.Statuses()[0].Error != "" })
	e.mu.Lock()
	var err error
	e.pub, err = zmtp.Publish(endpoint, zmtp.Options{})
	e.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it to be heard again", func() bool { return e.pub.Subscribers() == 1 && m.Statuses()[0].Error == "" })
	until(t, "the lag to be forgotten", func() bool { return !stamped() })
	for range 20 {
		e.sayAt(time.Now())
	}
	until(t, "another one", stamped)
	if s := m.Statuses()[0]; s.Lag > 30*time.Minute {
		t.Errorf("by the former connection's clock: %v", s.Lag)
	}
}
