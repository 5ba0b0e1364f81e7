package config

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// origins refuses what no browser sends as an Origin, because it would match nothing and look as if it did.
func (v *verdict) origins(list []string) {
	for i, o := range list {
		key := "cors.origins[" + strconv.Itoa(i) + "]"
		if slices.Contains(list[:i], o) {
			v.wrong(key, "%q stands twice; keep one", o)
			continue
		}
		if o == "*" {
			if len(list) > 1 {
				v.wrong(key, "* lets every origin in; the others beside it say nothing, take them or it out")
			}
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || o != u.Scheme+"://"+u.Host {
			v.wrong(key, "%q is no origin; write scheme and host alone, such as https://chat.example.com, or *%s", o, nearOrigin(u))
			continue
		}
		if strings.Contains(u.Host, "*") {
			v.wrong(key, "%q: a star inside an origin matches nothing; name each origin, or write * for all", o)
		}
	}
}

// nearOrigin is the hint for an origin with too much behind it.
func nearOrigin(u *url.URL) string {
	if u == nil || u.Scheme == "" || u.Host == "" {
		return ""
	}
	return "; did you mean " + u.Scheme + "://" + u.Host + "?"
}
