package memory

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	mountV2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	inside  = "412 400 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)

func TestTheLeastLimitOfAllControlGroupsAroundCounts(t *testing.T) {
	for _, c := range []struct {
		name, mounts, groups string
		files                map[string]string
		want                 int64
		from                 string
	}{
		{"version 2", mountV2, "0::/a/b\n", map[string]string{"a/b/memory.max": "1048576\n"}, 1 << 20, "/sys/fs/cgroup/a/b/memory.max"},
		{"a group around has the limit", mountV2, "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "2097152"}, 2 << 20, "/sys/fs/cgroup/a/memory.max"},
		{"the least of two", mountV2, "0::/a/b\n", map[string]string{"a/b/memory.max": "4194304", "a/memory.max": "2097152"}, 2 << 20, "/sys/fs/cgroup/a/memory.max"},
		{"a container sees itself as the root", mountV2, "0::/\n", map[string]string{"memory.max": "3000"}, 3000, "/sys/fs/cgroup/memory.max"},
		{"none", mountV2, "0::/a\n", map[string]string{"a/memory.max": "max"}, 0, ""},
		{"no files", mountV2, "0::/a\n", nil, 0, ""},
		{"nothing mounted", "", "0::/a\n", nil, 0, ""},
		{"version 1", mountV1, "4:memory:/x/y\n", map[string]string{"memory/x/y/memory.limit_in_bytes": "5000"}, 5000, "/sys/fs/cgroup/memory/x/y/memory.limit_in_bytes"},
		{"version 1 with several controllers", mountV1, "4:cpu,memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "5000"}, 5000, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes"},
		{"version 1's number for none", mountV1, "4:memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "9223372036854771712"}, 0, ""},
		{"version 1 in a container", inside, "4:memory:/docker/abc\n", map[string]string{"memory/memory.limit_in_bytes": "6000"}, 6000, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"a group of another namespace", inside, "4:memory:/elsewhere\n", map[string]string{"memory/memory.limit_in_bytes": "6000"}, 6000, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"both versions at once", mountV1 + mountV2, "4:memory:/x\n0::/\n", map[string]string{"memory/x/memory.limit_in_bytes": "7000", "memory.max": "max"}, 7000, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes"},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.groups)}, "proc/self/mountinfo": {Data: []byte(c.mounts)}}
		for name, text := range c.files {
			root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, from := cgroupLimit(root); got != c.want || from != c.from {
			t.Errorf("%s: %d from %q, want %d from %q", c.name, got, from, c.want, c.from)
		}
	}
}

// scene is a Watch over memory that the test moves, in hundredths of its limit.
type scene struct {
	*Watch
	at       int64
	cache    int64 // what the one cache has left to give
	restored int
	refuses  bool
	log      bytes.Buffer
}

func newScene(cache int64) *scene {
	s := &scene{cache: cache}
	give := func() int64 {
		freed := min(s.cache, 10)
		s.cache -= freed
		s.at -= freed
		return freed
	}
	o := Options{Sheds: []Shed{{"index", give, func() { s.restored++ }}}, Tight: func(limit, _ int64) { s.refuses = limit > 0 }, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	s.Watch = New(o)
	s.limit, s.used = 100, func() int64 { return s.at }
	return s
}

func (s *scene) to(at int64) string {
	s.at = at
	s.look()
	return fmt.Sprintf("used %d, shed %d times, restored %d, refuses %v", s.at, s.gave[0].Times, s.restored, s.refuses)
}

func TestCachesGiveBeforeRequestsDo(t *testing.T) {
	s := newScene(35)
	for _, step := range []struct {
		at   int64
		want string
	}{
		{89, "used 89, shed 0 times, restored 0, refuses false"},
		{90, "used 80, shed 1 times, restored 0, refuses false"},
		{89, "used 89, shed 1 times, restored 0, refuses false"}, // between the two marks nothing happens
		{75, "used 75, shed 1 times, restored 0, refuses false"},
		{69, "used 69, shed 1 times, restored 1, refuses false"},
		{68, "used 68, shed 1 times, restored 1, refuses false"}, // once
		{97, "used 77, shed 3 times, restored 1, refuses false"},
		{96, "used 91, shed 4 times, restored 1, refuses false"}, // all that there was; below tightAt
		{96, "used 96, shed 4 times, restored 1, refuses true"},
		{91, "used 91, shed 4 times, restored 1, refuses true"},
		{90, "used 90, shed 4 times, restored 1, refuses false"},
		{60, "used 60, shed 4 times, restored 2, refuses false"},
	} {
		if got := s.to(step.at); got != step.want {
			t.Errorf("at %d: %s, want %s", step.at, got, step.want)
		}
	}
	if text := s.log.String(); !strings.Contains(text, "cache=index") || !strings.Contains(text, "memory_max") {
		t.Errorf("the log says %s", text)
	}
	if g := s.State().Gave[0]; g != (Gave{"index", 4, 35}) {
		t.Errorf("the state has %+v", g)
	}
}

var kept []byte

func TestWhatIsLiveCountsAndGarbageDoesNot(t *testing.T) {
	const size = 32 << 20
	runtime.GC()
	before := inUse()
	kept = make([]byte, size)
	runtime.GC()
	if got := inUse() - before; got < size*9/10 || got > size*12/10 {
		t.Errorf("%d bytes live count as %d", size, got)
	}
	kept = nil
	for range 8 {
		kept = make([]byte, size/8)
	}
	kept = nil
	runtime.GC()
	if got := inUse() - before; got > size/4 {
		t.Errorf("garbage counts as %d bytes", got)
	}
}
