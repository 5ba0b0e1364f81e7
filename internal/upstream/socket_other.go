//go:build !unix

package upstream

// socket needs nothing where single system calls on a descriptor are not portable.
type socket struct{}

func (s *socket) bind() {}

// quiet cannot be asked here: a connection that is not is found out by the retry of stale connections.
func (c *conn) quiet() bool { return true }

// push leaves all of it to the writer in the background.
func (c *conn) push(b []byte) (rest []byte, err error) { return b, nil }
