package life

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWhy = errors.New("why")

func TestEveryWatchIsToldOnceAndThoseThatStoppedAreNot(t *testing.T) {
	var c Context
	var watches [5]Watch
	var told [5]int
	for i := range watches {
		c.Watch(&watches[i], func(cause error) {
			told[i]++
			if cause != errWhy || c.Err() != errWhy {
				t.Errorf("cause %v, Err %v", cause, c.Err())
			}
		})
	}
	for _, i := range []int{4, 0, 2} { // the newest, the oldest and one between
		if !watches[i].Stop() || watches[i].Stop() {
			t.Errorf("watch %d: stopping was not reported once", i)
		}
	}
	c.End(errWhy)
	c.End(errors.New("too late"))
	if told != [5]int{0, 1, 0, 1, 0} {
		t.Errorf("told %v", told)
	}
	if watches[1].Stop() {
		t.Error("a watch that was told could be stopped")
	}
	late := false
	if c.Watch(&watches[1], func(error) { late = true }); !late {
		t.Error("a watch of what has ended was not told")
	}
}

func TestAnEndMayStopOtherWatchesAndBeginNewOnes(t *testing.T) {
	var c Context
	var first, second, third Watch
	told := ""
	c.Watch(&first, func(error) { told += "1" })
	c.Watch(&second, func(error) {
		told += "2"
		if !first.Stop() {
			t.Error("one that was not told yet could not be stopped")
		}
		c.Watch(&third, func(error) { told += "3" })
	})
	if c.End(nil); told != "23" || c.Err() != context.Canceled {
		t.Errorf("told %q, Err %v", told, c.Err())
	}
}

func TestItIsAContextToOthers(t *testing.T) {
	var c Context
	child, cancel := context.WithTimeout(&c, time.Hour)
	defer cancel()
	stopped := make(chan struct{})
	context.AfterFunc(child, func() { close(stopped) })
	done := c.Done()
	c.End(errWhy)
	<-done
	<-stopped
	if <-c.Done(); context.Cause(&c) != errWhy || context.Cause(child) != errWhy {
		t.Errorf("cause %v, child's %v", context.Cause(&c), context.Cause(child))
	}
	c.Renew()
	select {
	case <-c.Done():
		t.Error("renewed and done")
	default:
	}
	if c.Err() != nil {
		t.Error("renewed and ended")
	}
}

func TestAnyContextCanBeFollowed(t *testing.T) {
	told := make(chan error, 1)
	tell := func(cause error) { told <- cause }
	var w Watch
	w.Follow(context.Background(), tell)
	if !w.Stop() {
		t.Error("what never ends could not be stopped")
	}
	theirs, end := context.WithCancelCause(context.Background())
	w.Follow(theirs, tell)
	if !w.Stop() {
		t.Error("not stopped")
	}
	w.Follow(theirs, tell)
	end(errWhy)
	if cause := <-told; cause != errWhy || w.Stop() {
		t.Errorf("cause %v", cause)
	}
	var ours Context
	w.Follow(&ours, tell)
	ours.End(errWhy)
	if cause := <-told; cause != errWhy {
		t.Errorf("cause %v", cause)
	}
}

func TestEndsAndStopsThatMeetAreToldOrStoppedAndNeverBoth(t *testing.T) {
	for range 300 {
		var c Context
		var all sync.WaitGroup
		for range 4 {
			var w Watch
			told := make(chan struct{})
			c.Watch(&w, func(error) { close(told) })
			all.Go(func() {
				if !w.Stop() {
					<-told
				}
			})
		}
		all.Go(func() { c.End(errWhy) })
		all.Go(func() { c.Done() })
		all.Wait()
	}
}

func TestAChildApartEndsWithItsContextAndIsNotTouchedByWhatItBecomes(t *testing.T) {
	var c Context
	cause := errors.New("its client left")
	child, _, end := Apart(&c, context.Background())
	c.End(cause)
	if context.Cause(child) != cause {
		t.Errorf("it ended with %v", context.Cause(child))
	}
	end()
	for range 1000 { // as a request's memory is used for the next one, while others still look at the child
		c.Renew()
		child, cancel, end := Apart(&c, context.Background())
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			grandchild, stop := context.WithCancel(struct{ context.Context }{child})
			defer stop()
			<-grandchild.Done()
		}()
		end()
		c.End(nil)
		if context.Cause(child) != context.Canceled {
			t.Fatalf("it ended with %v", context.Cause(child))
		}
		cancel(cause)
		<-seen
	}
}
