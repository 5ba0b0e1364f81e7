package roster

import (
	"fmt"
	"testing"
)

func BenchmarkStepsOfALargeFleetOfWhichOneIsAnother(b *testing.B) {
	const workers = 4096
	r := New(Options[string]{Linger: linger, Compare: compare}, "first")
	sets := [2][]Entry[string]{}
	for i := range workers {
		text := fmt.Sprintf("worker-%d@http://10.0.%d.%d:8000#i", i, i/256, i%256)
		sets[0], sets[1] = append(sets[0], set(text)[0]), append(sets[1], set(text)[0])
	}
	sets[1][7].Instance = "j"
	idle := func(string) int { return 0 }
	for i := 0; b.Loop(); i++ {
		r.Tell("first", sets[i%2])
		r.Steps(start, idle)
	}
}
