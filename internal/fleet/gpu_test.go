package fleet

import "testing"

func TestABusyGPUIsForeignLoadOnceOursCannotBeWhatShows(t *testing.T) {
	gpu := func(ms int, usage float64, more Counts) Counts {
		more.GPUUsage, more.Has, more.At = usage, more.Has|HasGPU, at(ms)
		return more
	}
	idle := Counts{Has: HasRunning | HasWaiting}
	for _, c := range []struct {
		what string
		run  func(f *Fleet, w *Worker)
		want int
	}{
		{"at once", func(_ *Fleet, w *Worker) { w.Observe(gpu(0, 0.9, Counts{})) }, 0},
		{"after the exporter's lag", func(_ *Fleet, w *Worker) { w.Observe(gpu(0, 0.9, Counts{})); w.Observe(gpu(46_000, 0.9, Counts{})) }, 1},
		{"though the engine counts nobody", func(_ *Fleet, w *Worker) { w.Observe(gpu(0, 0.9, idle)); w.Observe(gpu(46_000, 0.9, idle)) }, 1},
		{"a GPU that is not busy", func(_ *Fleet, w *Worker) { w.Observe(gpu(0, 0.2, Counts{})); w.Observe(gpu(46_000, 0.2, Counts{})) }, 0},
		{"the engine tells of more itself", func(_ *Fleet, w *Worker) {
			w.Observe(gpu(0, 0.9, idle))
			w.Observe(gpu(46_000, 0.9, Counts{Running: 3, Has: HasRunning}))
		}, 3},
		{"ours was there since, between two looks", func(f *Fleet, w *Worker) {
			w.Observe(gpu(0, 0.9, Counts{}))
			f.Reserve(w, Need{PromptTokens: 10, Streamed: true}, at(40_000)).Release(at(40_100), Succeeded)
			w.Observe(gpu(46_000, 0.9, Counts{}))
		}, 0},
		{"ours is there", func(f *Fleet, w *Worker) {
			w.Observe(gpu(0, 0.9, Counts{}))
			f.Reserve(w, Need{PromptTokens: 10, Streamed: true}, at(40_000))
			w.Observe(gpu(46_000, 0.9, Counts{}))
			w.Observe(gpu(99_000, 0.9, Counts{}))
		}, 0},
	} {
		f, w := one(t)
		c.run(f, w)
		if got := w.Load(w.counts.At).ForeignRunning; got != c.want {
			t.Errorf("%s: %d foreign, want %d", c.what, got, c.want)
		}
	}
}
