package zmtp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrSilent ends a connection whose peer did not answer a heartbeat.
var ErrSilent = errors.New("the peer is silent and does not answer heartbeats")

// Receive waits for a message and appends its frames to into. They are valid until the next call. It answers heartbeats and sends its own;
// a peer that only speaks 3.0 does not know them and is watched by TCP alone.
func (c *Conn) Receive(into [][]byte) ([][]byte, error) {
	if cap(c.buf) > bufferKept {
		c.buf = nil
	}
	c.buf = c.buf[:0]
	var ends []int
	var few [8]int
	ends = few[:0]
	for {
		if err := c.await(len(ends) > 0); err != nil {
			return into, err
		}
		flags, size, err := c.head()
		if err != nil {
			return into, err
		}
		if flags&flagCommand != 0 {
			if err := c.command(size); err != nil {
				return into, err
			}
			continue
		}
		if len(c.buf)+size > c.o.MessageBytesMax || len(ends) == c.o.MessageFramesMax {
			return into, fmt.Errorf("a message of more than %d bytes or %d frames is over the limit (MessageBytesMax, MessageFramesMax)", c.o.MessageBytesMax, c.o.MessageFramesMax)
		}
		if err := c.body(size); err != nil {
			return into, err
		}
		ends = append(ends, len(c.buf))
		if flags&flagMore == 0 {
			break
		}
	}
	from := 0
	for _, end := range ends {
		into = append(into, c.buf[from:end:end])
		from = end
	}
	return into, nil
}

// subscription is what a subscriber said to a publisher: that it wants, or no longer wants, messages whose first frame begins so.
type subscription struct {
	topic string
	on    bool
}

// body reads size bytes to the end of buf, which grows as they come: a length that is only announced costs nothing.
func (c *Conn) body(size int) error {
	for size > 0 {
		part := min(size, max(readBuffer, len(c.buf)))
		if c.r.Buffered() < part {
			if err := c.conn.SetReadDeadline(time.Now().Add(2 * c.o.Heartbeat)); err != nil {
				return err
			}
		}
		from := len(c.buf)
		if cap(c.buf)-from < part {
			c.buf = append(c.buf, make([]byte, part)...)
		} else {
			c.buf = c.buf[:from+part]
		}
		if _, err := io.ReadFull(c.r, c.buf[from:]); err != nil {
			return err
		}
		size -= part
	}
	return nil
}

// await waits for the next frame's first byte, with heartbeats between messages. Within a message the rest has to follow.
func (c *Conn) await(within bool) error {
	switch buffered := c.r.Buffered(); {
	case buffered >= headBytesMax:
		return nil
	case buffered > 0:
		return c.conn.SetReadDeadline(time.Now().Add(2 * c.o.Heartbeat))
	}
	asked := within || c.minor == 0
	for {
		deadline := time.Now().Add(c.o.Heartbeat)
		if c.minor == 0 && !within {
			deadline = time.Time{}
		}
		if err := c.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
		_, err := c.r.Peek(1)
		switch {
		case err == nil && deadline.IsZero():
			return c.conn.SetReadDeadline(time.Now().Add(c.o.Heartbeat))
		case err == nil:
			return c.conn.SetReadDeadline(time.Now().Add(2 * c.o.Heartbeat))
		case !isTimeout(err):
			return err
		case asked:
			return ErrSilent
		}
		asked = true
		if err := c.ping(); err != nil {
			return err
		}
	}
}

// ping asks whether the peer is there. The time to live, in tenths of a second, is how long the peer may go without a word from us.
func (c *Conn) ping() error {
	ttl := min(3*c.o.Heartbeat/(100*time.Millisecond), 1<<16-1)
	return c.write(flagCommand, binary.BigEndian.AppendUint16([]byte("\x04PING"), uint16(ttl)))
}

// command reads and answers a command.
func (c *Conn) command(size int) error {
	if size > commandBytesMax {
		return fmt.Errorf("a command of %d bytes is longer than the limit of %d", size, commandBytesMax)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return err
	}
	switch name, rest := commandName(b); {
	case name == "PING" && len(rest) >= 2:
		return c.write(flagCommand, append([]byte("\x04PONG"), rest[2:]...))
	case name == "ERROR":
		return fmt.Errorf("the peer ends the connection: %q", rest)
	case (name == "SUBSCRIBE" || name == "CANCEL") && c.onSubscribe != nil:
		c.onSubscribe(subscription{string(rest), name == "SUBSCRIBE"})
	}
	return nil
}

// Subscribe asks a publisher for the messages whose first frame begins with topic; "" is all.
func (c *Conn) Subscribe(topic string) error {
	if c.minor == 0 {
		return c.Send(append([]byte{1}, topic...))
	}
	return c.write(flagCommand, append([]byte("\x09SUBSCRIBE"), topic...))
}

// Send sends a message. It fails when the peer does not take it within the heartbeat's time.
func (c *Conn) Send(frames ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		c.out = appendFrame(c.out, flags, f)
	}
	return c.flush()
}

func (c *Conn) write(flags byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = appendFrame(c.out[:0], flags, body)
	return c.flush()
}

func (c *Conn) flush() error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.o.Heartbeat)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	if cap(c.out) > bufferKept {
		c.out = nil
	}
	return err
}

func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}
