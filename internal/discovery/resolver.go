package discovery

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver asks name servers. The standard library's tells no TTLs.
type resolver struct {
	servers []string // host:port, asked in turn
	search  []string // appended to names of few dots
	ndots   int
	timeout time.Duration // of one question to one server
	tries   int           // of each server
}

const (
	resolvConf      = "/etc/resolv.conf"
	dnsMessageMax   = 4096 // of an answer over UDP, as we tell servers (RFC 6891)
	dnsStreamMax    = 64 << 10
	dnsTimeout      = 2 * time.Second
	dnsTries        = 2
	dnsLongestChain = time.Hour
)

// resolverFor is one that asks server, or the system's, read anew each time: a container's file changes with its network.
func resolverFor(server string) (*resolver, error) {
	r := &resolver{ndots: 1, timeout: dnsTimeout, tries: dnsTries}
	if server != "" {
		r.servers = []string{server}
		return r, nil
	}
	file, err := os.Open(resolvConf)
	if err != nil {
		return nil, fmt.Errorf("no name server is known (setting server of the source): %w", err)
	}
	defer file.Close()
	r.read(file)
	if len(r.servers) == 0 {
		return nil, fmt.Errorf("%s names no name server (setting server of the source)", resolvConf)
	}
	return r, nil
}

// read takes what concerns us of a resolv.conf (resolv.conf(5)).
func (r *resolver) read(in io.Reader) {
	lines := bufio.NewScanner(io.LimitReader(in, 64<<10))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			r.servers = append(r.servers, net.JoinHostPort(words[1], "53"))
		case "domain", "search":
			r.search = words[1:]
		case "options":
			for _, w := range words[1:] {
				if n, ok := strings.CutPrefix(w, "ndots:"); ok {
					if dots, err := strconv.Atoi(n); err == nil {
						r.ndots = min(max(dots, 0), 15)
					}
				}
			}
		}
	}
}

// told is what an answer had.
type told struct {
	addresses []netip.Addr
	services  []dnsmessage.SRVResource
	ttl       time.Duration // the shortest of all records
}

// errNoName is a name that does not exist, or one without records of the kind.
var errNoName = errors.New("there is no such name")

// ask looks a name up as the system would: one of few dots with the search list first.
func (r *resolver) ask(ctx context.Context, name string, kind dnsmessage.Type) (t told, err error) {
	names := []string{name}
	if !strings.HasSuffix(name, ".") {
		names = []string{name + "."}
		var longer []string
		for _, s := range r.search {
			longer = append(longer, name+"."+strings.TrimSuffix(s, ".")+".")
		}
		if strings.Count(name, ".") >= r.ndots {
			names = append(names, longer...)
		} else {
			names = append(longer, names...)
		}
	}
	for _, full := range names {
		if t, err = r.askOne(ctx, full, kind); err == nil || !errors.Is(err, errNoName) {
			return t, err
		}
	}
	return t, err
}

// askOne asks all servers in turn until one knows.
func (r *resolver) askOne(ctx context.Context, name string, kind dnsmessage.Type) (t told, err error) {
	full, err := dnsmessage.NewName(name)
	if err != nil {
		return t, fmt.Errorf("%q is no name: %w", name, err)
	}
	q := dnsmessage.Question{Name: full, Type: kind, Class: dnsmessage.ClassINET}
	for range r.tries {
		for _, server := range r.servers {
			if t, err = r.exchange(ctx, server, q); err == nil || errors.Is(err, errNoName) || ctx.Err() != nil {
				return t, err
			}
		}
	}
	return t, err
}

// exchange asks one server, over TCP when the answer does not fit into a datagram.
func (r *resolver) exchange(ctx context.Context, server string, q dnsmessage.Question) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	id := uint16(rand.Uint32())
	text, err := question(id, q)
	if err != nil {
		return told{}, err
	}
	var p dnsmessage.Parser
	for _, network := range []string{"udp", "tcp"} {
		h, err := roundTrip(ctx, network, server, text, id, q, &p)
		if err != nil {
			return told{}, fmt.Errorf("name server %s: %w", server, err)
		}
		if !h.Truncated || network == "tcp" {
			return answerOf(h, server, &p)
		}
	}
	return told{}, nil
}

func question(id uint16, q dnsmessage.Question) ([]byte, error) {
	b := dnsmessage.NewBuilder(make([]byte, 2, 512), dnsmessage.Header{ID: id, RecursionDesired: true})
	b.EnableCompression()
	err := errors.Join(b.StartQuestions(), b.Question(q), b.StartAdditionals())
	var h dnsmessage.ResourceHeader
	err = errors.Join(err, h.SetEDNS0(dnsMessageMax, dnsmessage.RCodeSuccess, false), b.OPTResource(h, dnsmessage.OPTResource{}))
	if err != nil {
		return nil, err
	}
	text, err := b.Finish()
	if err == nil {
		binary.BigEndian.PutUint16(text, uint16(len(text)-2)) // for TCP
	}
	return text, err
}

// roundTrip sends a question and reads until its answer comes, or the time is over: what answers another question is passed over.
func roundTrip(ctx context.Context, network, server string, text []byte, id uint16, q dnsmessage.Question, p *dnsmessage.Parser) (h dnsmessage.Header, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, server)
	if err != nil {
		return h, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "udp" {
		text = text[2:]
	}
	if _, err = conn.Write(text); err != nil {
		return h, err
	}
	buffer := make([]byte, dnsStreamMax)
	for {
		n, err := readMessage(conn, network, buffer)
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("no answer: %w", context.Cause(ctx))
			}
			return h, err
		}
		if h, err = p.Start(buffer[:n]); err != nil || !h.Response || h.ID != id {
			continue
		}
		asked, err := p.AllQuestions()
		if err != nil || len(asked) != 1 || asked[0].Type != q.Type || !strings.EqualFold(asked[0].Name.String(), q.Name.String()) {
			continue
		}
		return h, nil
	}
}

func readMessage(conn net.Conn, network string, buffer []byte) (int, error) {
	if network == "udp" {
		return conn.Read(buffer)
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	return io.ReadFull(conn, buffer[:n])
}

// answerOf reads the records of the answer. A chain of aliases comes with it, since name servers that are asked to recurse follow it.
func answerOf(h dnsmessage.Header, server string, p *dnsmessage.Parser) (t told, err error) {
	switch h.RCode {
	case dnsmessage.RCodeSuccess:
	case dnsmessage.RCodeNameError:
		return t, errNoName
	default:
		return t, fmt.Errorf("name server %s answered %s", server, strings.TrimPrefix(h.RCode.String(), "RCode"))
	}
	t.ttl = dnsLongestChain
	for {
		r, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return told{}, fmt.Errorf("name server %s: %w", server, err)
		}
		t.ttl = min(t.ttl, time.Duration(r.TTL)*time.Second)
		switch r.Type {
		case dnsmessage.TypeA:
			a, e := p.AResource()
			t.addresses, err = append(t.addresses, netip.AddrFrom4(a.A)), e
		case dnsmessage.TypeAAAA:
			a, e := p.AAAAResource()
			t.addresses, err = append(t.addresses, netip.AddrFrom16(a.AAAA).Unmap()), e
		case dnsmessage.TypeSRV:
			s, e := p.SRVResource()
			t.services, err = append(t.services, s), e
		default:
			err = p.SkipAnswer()
		}
		if err != nil {
			return told{}, fmt.Errorf("name server %s: %w", server, err)
		}
	}
	if len(t.addresses)+len(t.services) == 0 {
		return t, errNoName
	}
	return t, nil
}
