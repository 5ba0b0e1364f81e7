package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/warmpath/warmpath/internal/strict"
)

// Validate says everything that is wrong with the values as an *Error, without lines: it is for a Config that flags have changed.
// Load has called it already.
func (c Config) Validate() error {
	return strict.AsError(c.problems(func(string) bool { return false }))
}

// problems checks each value by itself, then those that contradict each other; isSet tells the keys a file sets.
func (c Config) problems(isSet func(key string) bool) []Problem {
	var v verdict
	v.fields(reflect.ValueOf(c), "")
	v.address("listen", c.Listen, "")
	if c.Admin != "" {
		v.address("admin", c.Admin, "; leave it empty for no admin port")
		v.portClash(c.Listen, c.Admin)
	}
	v.workers(c)
	v.discovery(c.Discovery)
	v.origins(c.CORS.Origins)
	v.exact(c)
	v.access(c)
	v.queue(c.Queue)
	v.dash(c.Dash)
	v.ghosts(c.Ghosts)
	v.tenants(c.Tenants)
	v.poolsAndModels(c)
	v.ejection(c.Ejection)
	v.memory(c.MemoryMax)
	v.traces(c.Traces)
	if c.Telemetry.StaleAfter < c.Telemetry.Interval {
		v.wrong("telemetry.stale_after", "%s is shorter than telemetry.interval, %s: every count would be stale", c.Telemetry.StaleAfter, c.Telemetry.Interval)
	}
	// A value that is the default's contradicts nothing: a file that spells out every default is a good one.
	defaults := Default().DecisionLog
	changed := map[string]bool{
		"decision_log.bytes_max": c.DecisionLog.BytesMax != defaults.BytesMax,
		"decision_log.files_max": c.DecisionLog.FilesMax != defaults.FilesMax,
		"decision_log.compress":  c.DecisionLog.Compress != defaults.Compress,
		"decision_log.text":      c.DecisionLog.Text != defaults.Text,
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		if c.DecisionLog.File == "" && isSet(key) && changed[key] {
			v.wrong(key, "is set, but decision_log.file is not, so nothing would be written; set decision_log.file or take this out")
		}
	}
	return v
}

func (v *verdict) ejection(e Ejection) {
	if e.First > e.Max {
		v.wrong("ejection.first", "%s is longer than ejection.max, %s", e.First, e.Max)
	}
	if e.ShareMax > 1 {
		v.wrong("ejection.share_max", "%v is above 1, which is all workers", e.ShareMax)
	}
	if e.Canary > 0 && e.Canary < time.Second {
		v.wrong("ejection.canary", "%s is shorter than 1s: canaries would be a load of their own; 0 is none", e.Canary)
	}
}

// verdict collects problems.
type verdict []Problem

func (v *verdict) wrong(key, format string, args ...any) {
	*v = append(*v, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (v *verdict) choice(key, value string, choices []string) {
	if wrong := strict.Choice(value, choices); wrong != "" {
		v.wrong(key, "%s", wrong)
	}
}

// fields holds each value against the limits that its tags give.
func (v *verdict) fields(at reflect.Value, path string) { *v = append(*v, strict.Limits(at, path)...) }

func (v *verdict) address(key, value, hint string) {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		v.wrong(key, "%q is no address; write host:port, such as 127.0.0.1:8800%s", value, hint)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		v.wrong(key, "port %q of %q is not a number from 0 to 65535", port, value)
	}
}

// portClash refuses two ports that cannot both be opened. Port 0 is a free one each time.
func (v *verdict) portClash(listen, admin string) {
	lh, lp, errListen := net.SplitHostPort(listen)
	ah, ap, errAdmin := net.SplitHostPort(admin)
	if errListen != nil || errAdmin != nil || lp != ap || lp == "0" {
		return
	}
	if lh == ah || isAnyHost(lh) || isAnyHost(ah) {
		v.wrong("admin", "%s clashes with listen, %s: metrics and workers are never served on the data port; choose another port", admin, listen)
	}
}

func isAnyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// workers refuses addresses that cannot work and two workers that are one.
func (v *verdict) workers(c Config) {
	byURL, byID := map[string]int{}, map[string]int{}
	for i, w := range c.Workers {
		key := "workers[" + strconv.Itoa(i) + "]"
		if message := w.urlProblem(c.Listen, c.Admin); message != "" {
			v.wrong(key+".url", "%s", message)
			continue
		}
		if strings.ContainsFunc(string(w.Key), unicode.IsControl) {
			v.wrong(key+".key", "has a line break or another control character in it; a header cannot carry that")
		}
		v.gpus(key, w)
		w.complete()
		if first, twice := byURL[w.URL]; twice {
			v.wrong(key+".url", "%s is workers[%d] already; a worker listed twice would count as two", w.URL, first)
			continue
		}
		byURL[w.URL] = i
		if bad := strings.Trim(w.ID, idBytes); bad != "" || len(w.ID) > idBytesMax || !strings.ContainsFunc(w.ID, isLetterOrDigit) {
			v.wrong(key+".id", "%.200q may have letters, digits and -._:[] only, %d at most, one letter or digit among them", w.ID, idBytesMax)
		}
		if first, twice := byID[w.ID]; twice {
			v.wrong(key+".id", "%q is the id of workers[%d] already; give one of them another", w.ID, first)
		}
		byID[w.ID] = i
	}
}

// A worker's id stands in metric labels, response headers and admin paths, so it has plain bytes only.
const (
	idBytes    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]"
	idBytesMax = 128
)

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// urlProblem says what is wrong with the worker's URL; "" for nothing. It never repeats a password that the URL carries.
func (w Worker) urlProblem(own ...string) string {
	u, err := url.Parse(strings.TrimSpace(w.URL))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		if strings.ContainsRune(w.URL, '@') {
			return "is no worker address; write http://host:port, with the credential as the worker's key"
		}
		return fmt.Sprintf("%q is no worker address; write http://host:port or https://host", w.URL)
	}
	where := u.Scheme + "://" + u.Host
	switch {
	case u.User != nil:
		return where + " carries a user or password; write it as the worker's key: {url: " + where + ", key: \"${env.NAME}\"}"
	case u.RawQuery != "" || u.Fragment != "":
		return where + " has something after ? or #; write http://host:port alone"
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		return where + u.Path + ": leave out /v1, each request brings it along"
	case u.Hostname() == "":
		return fmt.Sprintf("%q names no host; write http://host:port", w.URL)
	}
	for _, address := range own {
		host, port, err := net.SplitHostPort(address)
		if err == nil && port == u.Port() && port != "0" && (host == u.Hostname() || isLoopback(u.Hostname()) && (isAnyHost(host) || isLoopback(host))) {
			return where + " is this router's own listen address; it would send requests to itself for ever"
		}
	}
	return ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// WorkerAt is the worker at a bare URL, as --worker gives it.
func WorkerAt(address string) Worker {
	w := Worker{URL: address}
	w.complete()
	return w
}

// complete writes the URL in its one form (lower case, no closing slash, no default port), by which duplicates are found, and fills
// the id. A URL that cannot be read stays as it is, for Validate to refuse.
func (w *Worker) complete() {
	if w.urlProblem() != "" {
		return
	}
	u, err := url.Parse(strings.TrimSpace(w.URL))
	if err != nil {
		return
	}
	host := strings.ToLower(u.Host)
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	host = strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
	folder := strings.TrimRight(u.EscapedPath(), "/")
	w.URL = u.Scheme + "://" + host + folder
	if w.ID == "" {
		w.ID = host + strings.ReplaceAll(folder, "/", "-")
	}
}
