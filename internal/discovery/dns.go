package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warmpath/warmpath/internal/life"
)

// DNS is a name whose addresses are workers: those of its A or AAAA records with one port, or those of its SRV records with theirs.
//
// A name without records is an error and no empty set: with most resolvers it cannot be told from one that lost its zone. What is there no
// more is found to be down, and its requests are answered as when nobody is there.
type DNS struct {
	Name   string // one that begins with an underscore, such as _http._tcp.engines.internal, is asked for SRV records
	Port   int    // of A and AAAA records
	Scheme string // http or https; "" http
	Family string // ipv4, ipv6, or "": IPv4 where there is any, because an engine with both would count as two workers
	Server string // host:port of a name server; "": those of /etc/resolv.conf, with its search list
	Every  time.Duration
	Labels []string
}

// SplitDNS takes the short form [SCHEME://]NAME[:PORT] apart. What it does not find is empty, or 0.
func SplitDNS(text string) (scheme, name string, port int) {
	if before, rest, ok := strings.Cut(text, "://"); ok {
		scheme, text = before, rest
	}
	if host, number, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.Atoi(number); err == nil {
			return scheme, host, n
		}
	}
	return scheme, text, 0
}

const (
	dnsEvery = 30 * time.Second // the longest that an answer is gone by, whatever its TTL
	dnsSoon  = time.Second      // the shortest
	dnsAgain = 2 * time.Second  // after an error
)

// Follow implements Source. It asks again when the shortest TTL of the answer is over.
func (d DNS) Follow(ctx context.Context, tell func([]Worker, error)) {
	longest := d.Every
	if longest <= 0 {
		longest = dnsEvery
	}
	for {
		set, ttl, err := d.ask(ctx)
		tell(set, err)
		next := min(max(ttl, dnsSoon), longest)
		if err != nil {
			next = min(dnsAgain, longest)
		}
		if !life.Pause(ctx, next) {
			return
		}
	}
}

// ask returns the workers and for how long the answer is good.
func (d DNS) ask(ctx context.Context) ([]Worker, time.Duration, error) {
	r, err := resolverFor(d.Server)
	if err != nil {
		return nil, 0, err
	}
	if strings.HasPrefix(d.Name, "_") {
		return d.services(ctx, r)
	}
	addresses, ttl, err := d.addresses(ctx, r, d.Name)
	if err != nil {
		return nil, 0, err
	}
	set := make([]Worker, 0, len(addresses))
	for _, a := range addresses {
		set = append(set, Worker{URL: d.url(netip.AddrPortFrom(a, uint16(d.Port)).String()), Labels: d.Labels})
	}
	return set, ttl, nil
}

func (d DNS) url(hostPort string) string {
	if d.Scheme == "https" {
		return "https://" + hostPort
	}
	return "http://" + hostPort
}

// services are the workers of SRV records (RFC 2782): those of the least priority. Weights are not gone by: who gets a request is the
// scheduler's to say. Over http a worker is its address, so that one that moved is known to be another; over https it is its name, which
// its certificate has.
func (d DNS) services(ctx context.Context, r *resolver) (set []Worker, ttl time.Duration, err error) {
	answer, err := r.ask(ctx, d.Name, dnsmessage.TypeSRV)
	if err != nil {
		return nil, 0, err
	}
	ttl = answer.ttl
	if len(answer.services) == 0 {
		return nil, 0, fmt.Errorf("%s has no SRV records", d.Name)
	}
	least := slices.MinFunc(answer.services, func(a, b dnsmessage.SRVResource) int { return int(a.Priority) - int(b.Priority) }).Priority
	for _, s := range answer.services {
		if s.Priority != least {
			continue
		}
		target := strings.TrimSuffix(s.Target.String(), ".")
		id := net.JoinHostPort(target, strconv.Itoa(int(s.Port)))
		if d.Scheme == "https" {
			set = append(set, Worker{URL: d.url(id), ID: id, Labels: d.Labels})
			continue
		}
		addresses, good, err := d.addresses(ctx, r, target+".")
		if err != nil {
			return nil, 0, err
		}
		ttl = min(ttl, good)
		set = append(set, Worker{URL: d.url(netip.AddrPortFrom(addresses[0], s.Port).String()), ID: id, Labels: d.Labels})
	}
	slices.SortFunc(set, func(a, b Worker) int { return strings.Compare(a.URL, b.URL) })
	return set, ttl, nil
}

// addresses are those of a name, in order, at least one.
func (d DNS) addresses(ctx context.Context, r *resolver, name string) ([]netip.Addr, time.Duration, error) {
	kinds := []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA}
	switch d.Family {
	case "ipv4":
		kinds = kinds[:1]
	case "ipv6":
		kinds = kinds[1:]
	}
	var failed error
	for _, kind := range kinds {
		answer, err := r.ask(ctx, name, kind)
		if err == nil && len(answer.addresses) > 0 {
			slices.SortFunc(answer.addresses, netip.Addr.Compare)
			return slices.Compact(answer.addresses), answer.ttl, nil
		}
		if err != nil && !errors.Is(err, errNoName) {
			return nil, 0, err // it may have such addresses: those of the other kind are not all there is
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, errNoName)
	}
	return nil, 0, fmt.Errorf("%s has no addresses", name)
}
