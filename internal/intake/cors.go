package intake

import (
	"net/http"
	"slices"
	"strings"
)

// CORS lets pages of other origins use the data port. The zero value lets none, and says nothing to browsers.
type CORS struct {
	Origins []string // such as https://chat.example.com; "*" for all
}

// What a page may read of an answer, and for how long a browser may remember a preflight, in seconds.
const (
	corsExposed = "X-Request-Id, X-Warmpath-Worker, X-Warmpath-Decision, Retry-After"
	corsMethods = "GET, HEAD, POST, DELETE, OPTIONS"
	corsMaxAge  = "600"
)

// Allow writes what the answer to r tells a browser, and reports whether the origin may read it. Credentials in the sense of cookies
// are never allowed: keys come in the Authorization header, which a page sets itself.
func (c CORS) Allow(w http.ResponseWriter, r *http.Request) bool {
	if len(c.Origins) == 0 {
		return false
	}
	h, in := w.Header(), RequestFields(w, r, nil)
	h.Add("Vary", "Origin")
	origin := in.Get("Origin")
	all := slices.Contains(c.Origins, "*")
	if origin == "" || !all && !slices.ContainsFunc(c.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return false
	}
	if all {
		origin = "*"
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Max-Age", corsMaxAge)
		if asked := in.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
		}
	}
	return true
}

// IsCORS names the headers that only the router may set: an engine that lets every origin in would let it in through the router.
func IsCORS(name string) bool { return strings.HasPrefix(name, "Access-Control-") }
