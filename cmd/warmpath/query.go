package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/spelling"
)

// query reads the query parameters of a path of the admin port. The first thing wrong is kept.
type query struct {
	values url.Values
	err    error
}

// askedBy takes a request's parameters, of which there may be those that are known.
func askedBy(q *http.Request, known ...string) *query {
	a := &query{}
	a.values, a.err = url.ParseQuery(q.URL.RawQuery)
	for name, values := range a.values {
		if a.err == nil && !slices.Contains(known, name) {
			a.err = fmt.Errorf("unknown query parameter %s; there are %s", name, strings.Join(known, ", "))
			if near := spelling.Nearest(name, known); near != "" {
				a.err = fmt.Errorf("unknown query parameter %s; did you mean %s?", name, near)
			}
			if len(known) == 0 {
				a.err = fmt.Errorf("unknown query parameter %s; this path takes none", name)
			}
		}
		if a.err == nil && len(values) > 1 {
			a.err = fmt.Errorf("the query parameter %s stands %d times; keep one", name, len(values))
		}
	}
	return a
}

func (a *query) wrong(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// duration is a length of time such as 15m.
func (a *query) duration(name string, otherwise time.Duration) time.Duration {
	text := a.values.Get(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		a.wrong("%s=%s is no length of time; write it as 15m or 90s", name, text)
	}
	return d
}

// count is a whole number from 1 to most.
func (a *query) count(name string, otherwise, most int) int {
	text := a.values.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		a.wrong("%s=%s: write a number from 1 to %d", name, text, most)
	}
	return n
}

// word is one of a list, or "" when it is not given.
func (a *query) word(name string, words []string) string {
	text := a.values.Get(name)
	if text != "" && !slices.Contains(words, text) {
		near := ""
		if n := spelling.Nearest(text, words); n != "" {
			near = "; did you mean " + n + "?"
		}
		a.wrong("%s=%s: there are %s%s", name, text, strings.Join(words, ", "), near)
	}
	return text
}

// words are those of a list with commas between them; nil when it is not given.
func (a *query) words(name string) []string {
	if text := a.values.Get(name); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// refused answers with what is wrong, if anything is.
func (a *query) refused(w http.ResponseWriter) bool {
	if a.err != nil {
		refuse(w, http.StatusBadRequest, a.err.Error())
	}
	return a.err != nil
}
