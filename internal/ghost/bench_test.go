package ghost

import "testing"

// BenchmarkAdd is what a request of 80 blocks pays where it ends.
func BenchmarkAdd(b *testing.B) {
	for name, o := range map[string]Options{"whole": {}, "tenth": {Sample: 0.1}} {
		b.Run(name, func(b *testing.B) {
			all := traffic(1, 1000)
			s := newScene(o, fleetOf(8, 400_000))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.in.Add(all[i%len(all)])
				if i%100 == 99 {
					s.in.Take()
				}
			}
		})
	}
}

// BenchmarkNote is what placing such a request takes beside it.
func BenchmarkNote(b *testing.B) {
	for name, o := range map[string]Options{"whole": {BytesMax: 1 << 30}, "tenth": {Sample: 0.1}} {
		b.Run(name, func(b *testing.B) {
			all := traffic(1, 100_000)
			s := newScene(o, fleetOf(8, 400_000))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.tell(all[i%len(all)])
			}
		})
	}
}
