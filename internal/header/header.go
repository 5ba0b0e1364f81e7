// Package header holds the header fields of a message in the order in which they came. A request passes a router with its fields
// nearly untouched: for that a list is made, looked through and written at a fraction of what maps of names cost, and keeps the order.
//
//	fields := header.Fields{{"Content-Type", "application/json"}}
//	fields.Add("X-Request-Id", id)
//	if fields.Get("Content-Type") == "application/json" { ... }
//
// Names are canonical, as net/http writes them; a name may stand several times.
package header

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Field is one line of a head.
type Field struct{ Name, Value string }

// Fields are the lines of a head without its first.
type Fields []Field

// Get returns the first value of a name, "" when it is not there.
func (f Fields) Get(name string) string {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value
		}
	}
	return ""
}

// Has says that a name is there.
func (f Fields) Has(name string) bool {
	for i := range f {
		if f[i].Name == name {
			return true
		}
	}
	return false
}

// Values returns all values of a name, in order.
func (f Fields) Values(name string) (values []string) {
	for i := range f {
		if f[i].Name == name {
			values = append(values, f[i].Value)
		}
	}
	return values
}

// Add puts a field at the end.
func (f *Fields) Add(name, value string) { *f = append(*f, Field{name, value}) }

// Del takes a name out.
func (f *Fields) Del(name string) {
	*f = slices.DeleteFunc(*f, func(one Field) bool { return one.Name == name })
}

// From appends what a map holds to into; several values of a name stay in order.
func From(h http.Header, into Fields) Fields {
	for name, values := range h {
		for _, v := range values {
			into = append(into, Field{name, v})
		}
	}
	return into
}

// AddTo adds the fields to a map.
func (f Fields) AddTo(h http.Header) {
	for _, one := range f {
		h[one.Name] = append(h[one.Name], one.Value)
	}
}

// HopByHop says that a field is for one connection only (RFC 9110 7.6.1, plus what old proxies send).
func HopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Authenticate", "Proxy-Authorization":
		return true
	}
	return false
}

// Named returns the names that Connection lists, which are for one connection only too; nil where it says no more than how long the
// connection lives, as nearly always.
func (f Fields) Named() (names []string) {
	for i := range f {
		if f[i].Name != "Connection" || f[i].Value == "close" || f[i].Value == "keep-alive" {
			continue
		}
		for token := range strings.SplitSeq(f[i].Value, ",") {
			if token = textproto.TrimString(token); token != "" {
				names = append(names, textproto.CanonicalMIMEHeaderKey(token))
			}
		}
	}
	return names
}
