package series

// Use is how many steps are kept, and how many may be. The oldest gives its place to the newest.
func (s *Series) Use() (steps, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.levels {
		l := &s.levels[i]
		most += len(l.ring)
		for j := range l.ring {
			if l.ring[j].at > 0 && l.ring[j].at > l.open.at-int64(len(l.ring)) {
				steps++
			}
		}
	}
	return steps, most
}
