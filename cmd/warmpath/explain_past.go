package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/traces"
)

// askDecision has a router tell of a request that was.
func (f *explainFlags) askDecision(ctx context.Context) (e explanation, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var found struct {
		decisionFound
		InFlight []requestRow `json:"in_flight"`
	}
	err = f.admin.call(ctx, http.MethodGet, "/decisions/"+url.PathEscape(f.id), &found)
	var refused *refusalError
	switch {
	case errors.As(err, &refused) && refused.status == http.StatusNotFound:
		return e, fmt.Errorf("%w; older ones are in the decision log (--log FILE), where the router writes one (serve --decision-log)", err)
	case err != nil:
		return e, err
	case len(found.InFlight) > 0:
		return e, fmt.Errorf("request %q is %s; why it went where it did is told when it is over (GET /requests/%s has what is known)", f.id, found.InFlight[0].State, f.id)
	}
	return explainRecord(&found.Record), nil
}

// search is a look for one id in decision logs, the newest file first.
type search struct {
	id              string
	found           *declog.Record
	near            *declog.Record // the newest whose id begins so,
	others          []string       // and such ids, at most idsNamedMax+1
	records, broken int
}

// idsNamedMax is how many ids are named of those that begin alike.
const idsNamedMax = 4

// findDecision looks a request up in a decision log, and in the older files that it was rotated to. Of several with the same id the last
// counts. Broken lines are passed over.
func findDecision(path, id string) (e explanation, err error) {
	files := rotated([]string{path})
	s := search{id: id}
	for _, name := range slices.Backward(files) { // the newest first
		if err := s.read(name); err != nil {
			return e, err
		}
		if s.found != nil {
			return explainRecord(s.found), nil
		}
	}
	switch len(s.others) {
	case 1:
		return explainRecord(s.near), nil
	case 0:
	default:
		return e, errors.New(severalBegin(id, s.others))
	}
	text := fmt.Sprintf("no request %q among the %d of %s", id, s.records, strings.Join(files, ", "))
	if s.broken > 0 {
		text += "; " + counted(s.broken, "line") + " cannot be read"
	}
	return e, errors.New(text + "; the id is that of the answer's X-Request-Id header, and a record is written when its request is over")
}

// severalBegin says that a beginning is not enough.
func severalBegin(id string, ids []string) string {
	more := ""
	if len(ids) > idsNamedMax {
		ids, more = ids[:idsNamedMax], " and more"
	}
	return fmt.Sprintf("several ids begin with %q: %s%s; write more of it", id, strings.Join(ids, ", "), more)
}

func (s *search) read(name string) error {
	in, done, err := traces.OpenFile(name)
	if err != nil {
		return usageError{fmt.Errorf("--log: %w", err)}
	}
	defer func() { _ = done() }() // it was read only
	reader, newer := declog.NewReader(in), s.near
	for {
		var r declog.Record
		var line *declog.LineError
		if err = reader.Next(&r); errors.As(err, &line) {
			s.broken++
			continue
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.records++
		switch {
		case r.ID == s.id:
			s.found = &r
		case strings.HasPrefix(r.ID, s.id):
			if newer == nil {
				s.near = &r
			}
			if len(s.others) <= idsNamedMax && !slices.Contains(s.others, r.ID) {
				s.others = append(s.others, r.ID)
			}
		}
	}
}
