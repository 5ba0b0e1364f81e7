package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/delta"
	"github.com/warmpath/warmpath/internal/filewatch"
	"github.com/warmpath/warmpath/internal/metrics"
)

// Who asks for the configuration to be read again: a signal, the admin port, or the file itself.

// Looks at the configuration's file. A change is taken up at the second look that finds it: at the first it may be half written, and half of a
// list of workers is a good configuration.
const (
	watchEvery    = 500 * time.Millisecond
	watchBytesMax = 4 << 20
)

var errUnsettled = errors.New("it changed just now")

// watchConfig takes up changes of the configuration's file as long as the settings say so, until ctx ends.
func (r *router) watchConfig(ctx context.Context, file string) error {
	w := filewatch.New(filewatch.Options{Interval: watchEvery, FileBytesMax: watchBytesMax})
	var seen [sha256.Size]byte
	first := true
	_, err := w.Add("--config", []string{file}, func(contents [][]byte) error {
		now := sha256.Sum256(contents[0])
		unsettled := now != seen && !first
		seen, first = now, false
		switch {
		case unsettled:
			return errUnsettled
		case !r.settings().WatchConfig:
			return nil
		}
		_, err := r.reload("the file", false)
		return err
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// refusedReload is the answer when the configuration stays as it was.
type refusedReload struct {
	Error struct {
		Message string `json:"message"`
		Status  int    `json:"status"`
	} `json:"error"`
	Result   string          `json:"result"`
	Problems []reloadProblem `json:"problems,omitempty"`      // of the file
	Restart  []delta.Change  `json:"needs_restart,omitempty"` // settings that change with one only
}

// reloadProblem is one thing wrong with a configuration, and where.
type reloadProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Setting string `json:"setting,omitempty"`
	Message string `json:"message"`
}

// postReload reads the configuration again: POST /reload, with dry_run=true only to say what would change.
func (r *router) postReload(w http.ResponseWriter, q *http.Request) {
	dry := q.URL.Query().Get("dry_run")
	if dry != "" && dry != "true" && dry != "false" {
		refuse(w, http.StatusBadRequest, "dry_run="+dry+": it is true or false")
		return
	}
	report, err := r.reload("the admin port", dry == "true")
	if err == nil {
		if report.Changes == nil {
			report.Changes = []delta.Change{}
		}
		answer(w, http.StatusOK, report)
		return
	}
	no := refusedReload{Result: reloadRefused}
	no.Error.Message, no.Error.Status = err.Error(), http.StatusUnprocessableEntity
	if err == errNoFile {
		no.Error.Status = http.StatusConflict
	}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			no.Problems = append(no.Problems, reloadProblem{p.File, p.Line, p.Key, p.Message})
		}
	}
	var restart *restartError
	if errors.As(err, &restart) {
		no.Restart = restart.settings
	}
	answer(w, no.Error.Status, no)
}

// getConfig is the configuration in force, as a file that config check reads, without credentials.
func (r *router) getConfig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("X-Warmpath-Config-Hash", r.reloads.state.Load().Hash)
	io.WriteString(w, config.Print(withoutQueries(*r.settings())))
}

// withoutQueries is a configuration without what addresses may carry as a credential.
func withoutQueries(c config.Config) config.Config {
	sources := make([]config.HTTPSource, 0, len(c.Discovery.HTTP))
	for _, s := range c.Discovery.HTTP {
		if before, _, query := strings.Cut(s.URL, "?"); query {
			s.URL = before + "?not-shown"
		}
		sources = append(sources, s)
	}
	c.Discovery.HTTP = sources
	return c
}

// collectReloads fills in what a scrape shows of it.
func (r *router) collectReloads(into *metrics.ReloadState) {
	now := r.reloads.state.Load()
	into.LoadedUnixSecs, into.Generation, into.LastRefused = float64(now.Loaded.UnixMilli())/1000, now.Generation, now.Error != ""
	for i := range r.reloads.counts {
		into.Counts[i] = r.reloads.counts[i].Load()
	}
}
