package downstream

import "io"

// body is the body of the request that is being answered.
type body struct {
	c    *conn
	left int64
	err  error
}

// Read implements io.Reader. What is in the buffer comes first; then it reads straight into p.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.err != nil {
		return 0, b.err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	c := b.c
	n := copy(p, c.buffered())
	if n > 0 {
		if c.r += n; c.r == c.w {
			c.release()
		}
	} else if len(p) > 0 {
		c.arm()
		var err error
		for n, err = c.nc.Read(p); err != nil && n == 0 && c.woken(err); {
			n, err = c.nc.Read(p)
		}
		if err != nil && n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			b.err = err
			return 0, err
		}
	}
	b.left -= int64(n)
	return n, nil
}

// Here says that what is left of the body has come already.
func (b *body) Here() bool { return int64(b.c.w-b.c.r) >= b.left }

// Close implements io.Closer. The rest is the server's to deal with.
func (b *body) Close() error { return nil }
