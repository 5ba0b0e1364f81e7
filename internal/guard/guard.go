// Package guard stands before the admin port: under which names it answers, who may come in, and what they may do.
//
//	g := guard.New(guard.Options{Tokens: tokens, Needs: needs, Refuse: refuse})
//	server := &http.Server{Handler: g.Before(mux)}
//
// A caller shows a token, as Authorization: Bearer TOKEN, as the password of Basic authorization, which browsers can ask for, or in
// HeaderToken, which leaves Authorization to what is asked about. It is taken out of the request. Where there are no tokens everybody who reaches the port may do everything: then it has to be out of reach by other means.
//
// A web page that an operator happens to look at can do nothing in either case. Browsers say which page a request comes from, and what
// would change something is refused to all but our own. A page whose name is made to point at this machine (DNS rebinding) counts as our
// own for the browser; but the browser still asks for that name, and the port answers to addresses, to localhost and to Names alone.
package guard

import (
	"context"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/tenant"
)

// HeaderToken is where a token may stand in place of Authorization.
const HeaderToken = "X-Warmpath-Token"

// Role is what somebody may do.
type Role uint8

// The roles.
const (
	None     Role = iota // nothing is needed
	Register             // say that one is there oneself, and nothing else: for engines
	Read                 // look at what there is
	Operate              // change it, look at it, and register
)

// Roles are their names in settings.
var Roles = map[string]Role{"register": Register, "read": Read, "operate": Operate}

func (r Role) String() string {
	return [...]string{None: "none", Register: "register", Read: "read", Operate: "operate"}[r]
}

// may says whether the role is enough for what is needed. Those who look on may not register.
func (r Role) may(needs Role) bool {
	return r == needs || r == Operate || needs == None
}

// Token is one that opens the port. What is kept of it is its digest.
type Token struct {
	Name   string // in messages and logs
	Role   Role
	Digest tenant.Digest
}

// Why a request was refused, for Options.Refused.
const (
	ByHost   = "host"   // it asks for a name that is not this port's
	ByOrigin = "origin" // it comes from another site's page
	ByToken  = "token"  // it shows none, or one that is not valid
	ByRole   = "role"   // its token may not do that
)

// Reasons are all of them.
var Reasons = []string{ByHost, ByOrigin, ByToken, ByRole}

// Options of a Guard.
type Options struct {
	Tokens []Token  // none: nobody is asked for one
	Names  []string // names that the port answers to, beside addresses and localhost; without port
	// Needs is what it takes to have a request answered.
	Needs func(*http.Request) Role
	// Refuse answers a request that is not let in.
	Refuse func(w http.ResponseWriter, status int, message string)
	// Refused hears of it; nil is nobody.
	Refused func(reason string)
}

// Guard lets in. Only New makes a usable one; any number of goroutines may use it.
type Guard struct {
	o      Options
	tokens atomic.Pointer[[]Token]
}

// New makes a guard.
func New(o Options) *Guard {
	g := &Guard{o: o}
	g.o.Names = slices.Clone(o.Names)
	for i, name := range g.o.Names {
		g.o.Names[i] = strings.ToLower(name)
	}
	g.Replace(o.Tokens)
	return g
}

// Replace takes other tokens in place of those that there are.
func (g *Guard) Replace(tokens []Token) {
	own := slices.Clone(tokens)
	g.tokens.Store(&own)
}

// Before is the guarded handler.
func (g *Guard) Before(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.refuse(w, ByOrigin, http.StatusForbidden, "this request comes from a page of another site, from which nothing is changed here")
	}))
	inside := origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, comes := g.lets(w, r); comes {
			if who != "" {
				r = r.WithContext(context.WithValue(r.Context(), whoKey{}, who))
			}
			inside.ServeHTTP(w, r)
		}
	})
}

// whoKey is where the name of a caller's token is.
type whoKey struct{}

// Who is the name of the token that a request was let in with; "" where it showed none.
func Who(r *http.Request) string {
	who, _ := r.Context().Value(whoKey{}).(string)
	return who
}

// lets answers those that it does not let in, and says by which token's name others come.
func (g *Guard) lets(w http.ResponseWriter, r *http.Request) (by string, comes bool) {
	needs := g.o.Needs(r)
	if needs == None {
		return "", true
	}
	tokens := *g.tokens.Load()
	header, text := shown(r)
	who := find(tokens, text)
	if who != nil {
		r.Header.Del(header)
	}
	switch {
	case who != nil && who.Role.may(needs): // no page can show a token that it was not given: the name does not matter then
		return who.Name, true
	case who != nil:
		g.refuse(w, ByRole, http.StatusForbidden, "the token "+who.Name+" has the role "+who.Role.String()+"; this needs "+needs.String()+" (setting admin_access.tokens)")
	case !g.answersTo(r.Host):
		g.refuse(w, ByHost, http.StatusMisdirectedRequest, "this port does not answer to the name that was asked for; ask for its address, or add the name to admin_access.hosts")
	case len(tokens) > 0:
		w.Header().Set("WWW-Authenticate", `Bearer, Basic realm="warmpath admin"`)
		g.refuse(w, ByToken, http.StatusUnauthorized, "a token is needed, as Authorization: Bearer TOKEN (setting admin_access.tokens)")
	default:
		return "", true
	}
	return "", false
}

func (g *Guard) refuse(w http.ResponseWriter, reason string, status int, message string) {
	if g.o.Refused != nil {
		g.o.Refused(reason)
	}
	g.o.Refuse(w, status, message)
}

// shown is the token that a request shows, "" none, and the header in which it does.
func shown(r *http.Request) (header, text string) {
	if text := r.Header.Get(HeaderToken); text != "" {
		return HeaderToken, text
	}
	if _, password, ok := r.BasicAuth(); ok {
		return "Authorization", password
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "Authorization", ""
	}
	return "Authorization", strings.TrimSpace(text)
}

// find tells whose token text is; nil: nobody's. All are looked at, each in constant time, and what is compared are digests: how long it
// takes says nothing of how near a guess is.
func find(tokens []Token, text string) (who *Token) {
	digest, err := tenant.Hash(text)
	if err != nil {
		return nil
	}
	for i := range tokens {
		if subtle.ConstantTimeCompare(tokens[i].Digest[:], digest[:]) == 1 {
			who = &tokens[i]
		}
	}
	return who
}

// answersTo says whether a Host field names this port. An address always does: no page can have one for its name without being served
// from there.
func (g *Guard) answersTo(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(name, "."), "["), "]"))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.Contains(g.o.Names, name)
}
