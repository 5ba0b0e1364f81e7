// Package zmtp speaks as much of ZeroMQ's wire protocol, ZMTP 3.0 and 3.1, as cache events need: subscribers and dealers, which connect
// or are connected to, publishers and routers, the NULL mechanism, heartbeats.
//
//	c, err := zmtp.Dial(ctx, "tcp://10.0.0.1:5557", zmtp.SUB, zmtp.DefaultOptions())
//	err = c.Subscribe("")
//	frames, err := c.Receive(nil) // topic, sequence number, payload
//
// It is ours, and not libzmq, because the binary is built without C and a message costs less than a microsecond this way. A Conn is one
// connection: it does not reconnect, queue or retry, which is the caller's business.
package zmtp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is what a socket calls itself.
type Kind string

// The kinds that are spoken.
const (
	SUB    Kind = "SUB"
	PUB    Kind = "PUB"
	DEALER Kind = "DEALER"
	ROUTER Kind = "ROUTER"
)

// peers are the kinds that each kind may talk to.
var peers = map[Kind][]string{
	SUB:    {"PUB", "XPUB"},
	PUB:    {"SUB", "XSUB"},
	DEALER: {"ROUTER", "REP", "DEALER"},
	ROUTER: {"DEALER", "REQ", "ROUTER"},
}

// Options are the bounds of a connection. Zero fields are taken from DefaultOptions.
type Options struct {
	FrameBytesMax    int           // a longer frame ends the connection
	MessageBytesMax  int           // all frames of a message together
	MessageFramesMax int           // frames of a message
	Handshake        time.Duration // for connecting and both sides' introductions
	Heartbeat        time.Duration // after so long a silence the peer is asked whether it is there, and given as long again to answer
}

// DefaultOptions are the defaults as visible values.
func DefaultOptions() Options {
	return Options{FrameBytesMax: 64 << 20, MessageBytesMax: 64 << 20, MessageFramesMax: 16, Handshake: 5 * time.Second, Heartbeat: 15 * time.Second}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	if o.FrameBytesMax <= 0 {
		o.FrameBytesMax = d.FrameBytesMax
	}
	if o.MessageBytesMax <= 0 {
		o.MessageBytesMax = d.MessageBytesMax
	}
	if o.MessageFramesMax <= 0 {
		o.MessageFramesMax = d.MessageFramesMax
	}
	if o.Handshake <= 0 {
		o.Handshake = d.Handshake
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = d.Heartbeat
	}
	return o
}

// Conn is one connection after the handshake. Receive is for one goroutine, Send and Close for any.
type Conn struct {
	conn  net.Conn
	r     *bufio.Reader
	o     Options
	minor byte   // of the peer's version 3.x
	buf   []byte // frames of the message that Receive returned

	onSubscribe func(subscription) // a publisher's; called within Receive

	mu  sync.Mutex // guards writing; held across the write of one message, which has a deadline
	out []byte
}

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4

	greetingBytes   = 64
	headBytesMax    = 9
	readBuffer      = 64 << 10
	commandBytesMax = 4 << 10
	bufferKept      = 1 << 20
)

// Dial connects to "tcp://host:port" or "ipc:///path" and introduces itself as that kind.
func Dial(ctx context.Context, endpoint string, kind Kind, o Options) (*Conn, error) {
	o = o.withDefaults()
	network, address, err := Address(endpoint)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: o.Handshake}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c, err := Handshake(conn, kind, o)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	return c, nil
}

// Address takes an endpoint apart into what net.Dial and net.Listen want. A host of "*" is every address.
func Address(endpoint string) (network, address string, err error) {
	switch {
	case strings.HasPrefix(endpoint, "tcp://"):
		address = strings.TrimPrefix(endpoint, "tcp://")
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" {
			return "", "", fmt.Errorf("endpoint %q: it needs a host and a port, as in tcp://10.0.0.1:5557", endpoint)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", "", fmt.Errorf("endpoint %q: port %q is not a number from 0 to 65535", endpoint, port)
		}
		if host == "*" {
			host = ""
		}
		return "tcp", net.JoinHostPort(host, port), nil
	case strings.HasPrefix(endpoint, "ipc://") && len(endpoint) > len("ipc://"):
		return "unix", strings.TrimPrefix(endpoint, "ipc://"), nil
	}
	return "", "", fmt.Errorf("endpoint %q: only tcp://host:port and ipc://path are known", endpoint)
}

// Handshake introduces both sides over a fresh connection, whoever connected. It does not close conn when it fails.
func Handshake(conn net.Conn, kind Kind, o Options) (*Conn, error) {
	o = o.withDefaults()
	c := &Conn{conn: conn, r: bufio.NewReaderSize(conn, readBuffer), o: o}
	if err := conn.SetDeadline(time.Now().Add(o.Handshake)); err != nil {
		return nil, err
	}
	mine := [greetingBytes]byte{0: 0xff, 8: 1, 9: 0x7f, 10: 3, 11: 1}
	copy(mine[12:], "NULL")
	if _, err := conn.Write(mine[:]); err != nil {
		return nil, err
	}
	var theirs [greetingBytes]byte
	if _, err := io.ReadFull(c.r, theirs[:]); err != nil {
		return nil, fmt.Errorf("no ZeroMQ greeting: %w", err)
	}
	if err := c.readGreeting(theirs[:]); err != nil {
		return nil, err
	}
	if err := c.introduce(kind); err != nil {
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

func (c *Conn) readGreeting(g []byte) error {
	mechanism := strings.TrimRight(string(g[12:32]), "\x00")
	switch {
	case g[0] != 0xff || g[9]&1 != 1:
		return errors.New("what answers there does not speak ZeroMQ")
	case g[10] < 3:
		return fmt.Errorf("the peer speaks ZMTP %d, 3.0 is needed (ZeroMQ 4)", g[10])
	case mechanism != "NULL":
		return fmt.Errorf("the peer wants the security mechanism %q, only NULL is known", mechanism)
	}
	c.minor = g[11]
	if g[10] > 3 {
		c.minor = 1
	}
	return nil
}

// introduce exchanges READY commands.
func (c *Conn) introduce(kind Kind) error {
	body := property([]byte("\x05READY"), "Socket-Type", string(kind))
	if kind == DEALER {
		body = property(body, "Identity", "")
	}
	if err := c.write(flagCommand, body); err != nil {
		return err
	}
	flags, size, err := c.head()
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 || size > commandBytesMax {
		return fmt.Errorf("the peer's introduction is no command of at most %d bytes", commandBytesMax)
	}
	ready := make([]byte, size)
	if _, err := io.ReadFull(c.r, ready); err != nil {
		return err
	}
	name, rest := commandName(ready)
	if name == "ERROR" {
		return fmt.Errorf("the peer refuses: %q", strings.TrimLeft(string(rest), "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f"))
	}
	if name != "READY" {
		return fmt.Errorf("the peer introduces itself by %q", name)
	}
	theirs := findProperty(rest, "socket-type")
	for _, p := range peers[kind] {
		if p == theirs {
			return nil
		}
	}
	return fmt.Errorf("the peer is a %q socket, which a %s cannot talk to", theirs, kind)
}

func property(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func findProperty(b []byte, name string) string {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return ""
		}
		key := string(b[1 : 1+n])
		size := binary.BigEndian.Uint32(b[1+n:])
		b = b[1+n+4:]
		if uint64(len(b)) < uint64(size) {
			return ""
		}
		if strings.EqualFold(key, name) {
			return string(b[:size])
		}
		b = b[size:]
	}
	return ""
}

func commandName(b []byte) (name string, rest []byte) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil
	}
	return string(b[1 : 1+b[0]]), b[1+b[0]:]
}

// Close ends the connection at once. Receive and Send return an error.
func (c *Conn) Close() error { return c.conn.Close() }

// RemoteAddr names the peer.
func (c *Conn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

// head reads a frame's flags and length.
func (c *Conn) head() (flags byte, size int, err error) {
	if flags, err = c.r.ReadByte(); err != nil {
		return 0, 0, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		return 0, 0, fmt.Errorf("frame flags %#x are not known", flags)
	}
	if flags&flagLong == 0 {
		b, err := c.r.ReadByte()
		return flags, int(b), err
	}
	var long [8]byte
	if _, err := io.ReadFull(c.r, long[:]); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint64(long[:])
	if n > uint64(c.o.FrameBytesMax) {
		return 0, 0, fmt.Errorf("a frame of %d bytes is longer than the limit of %d (FrameBytesMax)", n, c.o.FrameBytesMax)
	}
	return flags, int(n), nil
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
