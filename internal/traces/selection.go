package traces

import (
	"container/heap"
	"io"
	"strconv"
	"time"
)

// Selection takes a part of a trace. The zero value is all of it.
type Selection struct {
	// First ends the trace after so many requests, Length after so much of its time; 0 is no end.
	First  int
	Length time.Duration
	// Half is "even" or "odd", as the function of that name has it of a session's id or, in a trace without sessions, of the number of the
	// minute in decimal; "" is both. Minutes that stay are joined end to end. What is tuned on one half is to be judged on the other.
	Half string
}

// Half is the half of all traffic that a session of that id, or a minute of that number, is in: "even" or "odd", the lowest bit of the 64-bit
// FNV-1a hash.
func Half(id string) string { return half(hash(id)) }

func half(hash uint64) string {
	if hash&1 == 1 {
		return "odd"
	}
	return "even"
}

// Select narrows the trace for all passes to come.
func (t *Trace) Select(s Selection) {
	if s == (Selection{}) {
		return
	}
	open := t.open
	t.open = func(seed uint64) (Reader, error) {
		r, err := open(seed)
		if err != nil {
			return nil, err
		}
		return &selected{Reader: r, s: s, sessions: t.Sessions, minute: -1}, nil
	}
}

type selected struct {
	Reader
	s        Selection
	sessions bool
	given    int
	minute   int64 // the latest one,
	kept     int64 // and how many before it stayed
	stays    bool
}

func (x *selected) Next(r *Request) error {
	for {
		if x.s.First > 0 && x.given >= x.s.First {
			return io.EOF
		}
		if err := x.Reader.Next(r); err != nil {
			return err
		}
		if x.s.Length > 0 && r.At >= x.s.Length && !r.Follows {
			return io.EOF
		}
		if x.s.Half == "" || x.half(r) {
			x.given++
			return nil
		}
	}
}

// half says whether r is in the half that is asked for, and moves it to where its minute is then.
func (x *selected) half(r *Request) bool {
	if x.sessions {
		return half(r.Session) == x.s.Half
	}
	if m := int64(r.At / time.Minute); m != x.minute {
		if x.stays {
			x.kept++
		}
		x.minute, x.stays = m, Half(strconv.FormatInt(m, 10)) == x.s.Half
	}
	r.At += time.Duration(x.kept-x.minute) * time.Minute
	return x.stays
}

// reorderWindow is how much later than its arrival a request may stand in a log that is written as requests end.
const reorderWindow = 30 * time.Minute

// reorder sorts requests by their arrival as far as the window reaches.
type reorder struct {
	Reader
	waiting arrivals
	latest  time.Duration
	ended   bool
}

func (o *reorder) Next(r *Request) error {
	for !o.ended && (len(o.waiting) == 0 || o.latest-o.waiting[0].At < reorderWindow) {
		var q Request
		switch err := o.Reader.Next(&q); {
		case err == io.EOF:
			o.ended = true
			continue
		case err != nil:
			return err
		}
		o.latest = max(o.latest, q.At)
		heap.Push(&o.waiting, q)
	}
	if len(o.waiting) == 0 {
		return io.EOF
	}
	*r = heap.Pop(&o.waiting).(Request)
	return nil
}

type arrivals []Request

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].At < a[j].At || a[i].At == a[j].At && a[i].Line < a[j].Line
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(Request)) }
func (a *arrivals) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}
