package render

// Remembered is how many bytes the tokens take that were worked out or told, of all models together, and how many they may.
func (m *Manager) Remembered() (bytes, bytesMax int64) {
	for _, o := range m.owns() {
		bytes += int64(o.exact.Stats().Bytes)
		bytesMax += int64(m.o.CacheBytes)
	}
	m.side.mu.Lock()
	defer m.side.mu.Unlock()
	return bytes + int64(m.side.memory.bytes+m.side.memory.oldBytes), bytesMax + int64(m.o.CacheBytes)
}

// Forget drops all of them and returns the bytes they took. They are worked out or asked for anew.
func (m *Manager) Forget() (bytes int64) {
	for _, o := range m.owns() {
		bytes += int64(o.exact.Forget())
	}
	m.side.mu.Lock()
	defer m.side.mu.Unlock()
	bytes += int64(m.side.memory.bytes + m.side.memory.oldBytes)
	m.side.memory = newMemory(m.side.memory.max)
	return bytes
}

// UnderWay is how many questions for tokens engines are being asked, and how many there may be.
func (m *Manager) UnderWay() (n, most int) {
	m.side.mu.Lock()
	defer m.side.mu.Unlock()
	return len(m.side.underWay), m.o.InFlightMax
}

func (m *Manager) owns() (all []*own) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.files {
		if o := f.ours(); o != nil {
			all = append(all, o)
		}
	}
	return all
}
