//go:build !linux

package socket

// Watcher is for Linux; elsewhere there is none.
type Watcher struct{}

// NewWatcher returns nil.
func NewWatcher() (*Watcher, error)              { return nil, nil }
func (*Watcher) Add(int, func()) (uint64, error) { return 0, nil }
func (*Watcher) Remove(int, uint64)              {}
func (*Watcher) Forget(uint64)                   {}
func (*Watcher) Run()                            {}
func (*Watcher) Close()                          {}
