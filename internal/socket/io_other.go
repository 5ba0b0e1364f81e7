//go:build !unix

package socket

// Quiet cannot be asked where single system calls on a descriptor are not portable.
func (c *Conn) Quiet() bool { return true }

func (c *Conn) run(uintptr) bool { return true }

// Attend calls step until it returns true.
func (c *Conn) Attend(step func() bool) error {
	for !step() {
	}
	return nil
}

// Try waits for bytes: here only one read at a time is portable.
func (c *Conn) Try(p []byte) (int, error) { return c.Read(p) }

// Push takes nothing.
func (c *Conn) Push(b []byte) (rest []byte, err error) { return b, nil }
