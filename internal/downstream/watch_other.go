//go:build !linux

package downstream

// watcher is for Linux; without one every connection is net/http's.
type watcher struct{}

func newWatcher() (*watcher, error)              { return nil, nil }
func (*watcher) add(int, func()) (uint64, error) { return 0, nil }
func (*watcher) remove(int, uint64)              {}
func (*watcher) forget(uint64)                   {}
func (*watcher) run()                            {}
func (*watcher) close()                          {}
