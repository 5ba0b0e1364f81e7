package smuggling

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Origin is a server that reads requests by the letter of RFC 9112, and keeps what it read. Whatever could be read differently is kept
// as a violation: what stands before an origin has no business sending that on.
type Origin struct {
	Addr string

	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool
	reached map[string][]string // by case number; "" for those without
}

// StartOrigin listens on a free port of this machine.
func StartOrigin() (*Origin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &Origin{Addr: l.Addr().String(), listener: l, conns: map[net.Conn]bool{}, reached: map[string][]string{}}
	o.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.conns[c] = true
			o.mu.Unlock()
			o.running.Go(func() { o.serve(c) })
		}
	})
	return o, nil
}

// Close ends all connections.
func (o *Origin) Close() {
	o.listener.Close()
	o.mu.Lock()
	for c := range o.conns {
		c.Close()
	}
	o.mu.Unlock()
	o.running.Wait()
}

// Reached is what came of a case, in order, with Mark for its number.
func (o *Origin) Reached(number int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.reached[fmt.Sprintf("%04d", number)]...)
}

// Forget makes as if nothing had come of a case.
func (o *Origin) Forget(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.reached, fmt.Sprintf("%04d", number))
}

// Stray is what came without a case's number, or broke the rules before one could be read.
func (o *Origin) Stray() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.reached[""]...)
}

var numbered = regexp.MustCompile(`/v1/(\d{4})\b`)

func (o *Origin) keep(line string) {
	number := ""
	if m := numbered.FindStringSubmatch(line); m != nil {
		number = m[1]
		line = strings.ReplaceAll(line, number, Mark)
	}
	o.mu.Lock()
	o.reached[number] = append(o.reached[number], line)
	o.mu.Unlock()
}

func (o *Origin) serve(c net.Conn) {
	defer func() {
		c.Close()
		o.mu.Lock()
		delete(o.conns, c)
		o.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	for {
		r, err := readRequest(in)
		if errors.Is(err, io.EOF) && r == nil {
			return
		}
		if err != nil {
			o.keep(fmt.Sprintf("VIOLATION %v: %s", err, r))
			return
		}
		if r.agent == "warmpath" { // its own questions
			fmt.Fprint(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		if !strings.HasSuffix(r.target, probeTarget) && !strings.HasSuffix(r.target, beforeTarget) { // the client's own
			o.keep(r.String())
		}
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(r.target))
		if r.method != "HEAD" {
			answer += r.target
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// request is one as the origin read it.
type request struct {
	method, target, agent string
	fields                []string
	body                  []byte
}

// String is the request in one line: what it is at its core, then the fields that came from the client.
func (r *request) String() string {
	if r == nil {
		return "before a request was read"
	}
	line := r.method + " " + r.target + " " + strconv.Quote(clip(string(r.body)))
	for _, f := range slices.Sorted(slices.Values(r.fields)) { // net/http keeps no order
		line += " | " + strings.Trim(strconv.Quote(clip(f)), `"`)
	}
	return line
}

// clip keeps lines of the corpus readable.
func clip(s string) string {
	if len(s) <= 300 {
		return s
	}
	return fmt.Sprintf("%s... %d bytes", s[:20], len(s))
}

// own are fields that are every hop's to write.
var own = map[string]bool{"host": true, "connection": true, "content-length": true, "transfer-encoding": true, "x-request-id": true, "traceparent": true}

var (
	requestLine = regexp.MustCompile(`^([!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+) (\S+) HTTP/1\.[01]$`)
	fieldLine   = regexp.MustCompile(`^([!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*$`)
)

// readRequest reads one request. An error with a request is about how that was sent on.
func readRequest(in *bufio.Reader) (*request, error) {
	first, err := line(in)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "reset") {
			return nil, io.EOF
		}
		return &request{method: first}, err
	}
	m := requestLine.FindStringSubmatch(first)
	if m == nil {
		return &request{method: first}, errors.New("no request line")
	}
	r := &request{method: m[1], target: m[2]}
	lengths, codings := []string{}, []string{}
	for {
		text, err := line(in)
		if err != nil {
			return r, err
		}
		if text == "" {
			break
		}
		f := fieldLine.FindStringSubmatch(text)
		if f == nil {
			return r, fmt.Errorf("no field: %q", text)
		}
		name := strings.ToLower(f[1])
		switch name {
		case "content-length":
			lengths = append(lengths, f[2])
		case "transfer-encoding":
			codings = append(codings, f[2])
		case "user-agent":
			r.agent = f[2]
		}
		if !own[name] {
			r.fields = append(r.fields, name+": "+f[2])
		}
	}
	r.body, err = body(in, lengths, codings)
	return r, err
}

// body reads what the head announced.
func body(in *bufio.Reader, lengths, codings []string) ([]byte, error) {
	switch {
	case len(lengths)+len(codings) > 1:
		return nil, fmt.Errorf("lengths %q and codings %q", lengths, codings)
	case len(codings) == 1:
		if codings[0] != "chunked" {
			return nil, fmt.Errorf("coding %q", codings[0])
		}
		return chunks(in)
	case len(lengths) == 0:
		return nil, nil
	}
	n, err := strconv.ParseUint(lengths[0], 10, 40)
	if err != nil || lengths[0][0] == '+' {
		return nil, fmt.Errorf("length %q", lengths[0])
	}
	all := make([]byte, n)
	_, err = io.ReadFull(in, all)
	return all, err
}

func chunks(in *bufio.Reader) (all []byte, err error) {
	for {
		size, err := line(in)
		if err != nil {
			return all, err
		}
		n, err := strconv.ParseUint(size, 16, 32)
		if err != nil {
			return all, fmt.Errorf("chunk size %q", size)
		}
		piece := make([]byte, n)
		if _, err := io.ReadFull(in, piece); err != nil {
			return all, err
		}
		all = append(all, piece...)
		if end, err := line(in); err != nil || end != "" {
			return all, fmt.Errorf("behind a chunk %q %v", end, err)
		}
		if n == 0 {
			return all, nil
		}
	}
}

// line reads up to CRLF, and takes no other end for one.
func line(in *bufio.Reader) (string, error) {
	text, err := in.ReadBytes('\n')
	if err != nil {
		return string(text), err
	}
	text, whole := bytes.CutSuffix(text, []byte("\r\n"))
	if !whole || bytes.ContainsAny(text, "\r\n\x00") {
		return string(text), fmt.Errorf("line %q", text)
	}
	return string(text), nil
}
