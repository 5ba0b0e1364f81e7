package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/delta"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/handover"
	"github.com/warmpath/warmpath/internal/hush"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/tenant"
)

// Reading the configuration again: whole, and only if all of it can be had without a restart. What is known of workers that stay, what runs
// and what waits is not touched.

// reloads is how the configuration is read again, and how that went.
type reloads struct {
	file string                        // that may be watched; "" none
	load func() (config.Config, error) // as at the start, flags included; nil: there is no file
	// found says that the workers are those of this machine, which no file names.
	found bool

	mu           sync.Mutex // one at a time; taken before any other lock
	leaveTenants func()     // ends following the file of tenants
	state        atomic.Pointer[configState]
	counts       [3]atomic.Uint64 // by outcomes
}

// What came of reading it again, in the order of the counts.
const (
	reloadApplied   = "applied"
	reloadUnchanged = "unchanged"
	reloadRefused   = "refused"
	reloadWould     = "would apply" // it was only asked
)

// configState is the configuration in /state.
type configState struct {
	File       string    `json:"file,omitempty"`
	Hash       string    `json:"hash"`       // of all settings but credentials, as config check prints it
	Generation int       `json:"generation"` // 1 at the start, one more with each that was applied
	Loaded     time.Time `json:"loaded"`
	Error      string    `json:"last_error,omitempty"` // of the last attempt, when it was refused
	Failed     time.Time `json:"last_error_at,omitzero"`
}

// reloadReport is what whoever asked for it is told.
type reloadReport struct {
	Result     string         `json:"result"`
	Changes    []delta.Change `json:"changes"`
	Hash       string         `json:"hash"`
	Generation int            `json:"generation"`
}

// configHash tells configurations apart, credentials aside: those may be guessed from it.
func configHash(c config.Config) string {
	sum := sha256.Sum256([]byte(config.Print(c)))
	return hex.EncodeToString(sum[:8])
}

// canReload says how the configuration is read again. It is called before anybody can ask for it.
func (r *router) canReload(file string, found bool, load func() (config.Config, error)) {
	r.reloads.mu.Lock()
	defer r.reloads.mu.Unlock()
	r.reloads.file, r.reloads.found, r.reloads.load = file, found, load
	now := *r.reloads.state.Load()
	now.File = file
	r.reloads.state.Store(&now)
	if file != "" {
		r.running.Go(func() { r.report("watching the configuration", r.watchConfig(r.asking, file)) })
	}
}

// reload reads the configuration again and goes by it; dry only says what would become of it. An error means that nothing changed.
func (r *router) reload(why string, dry bool) (reloadReport, error) {
	r.reloads.mu.Lock()
	defer r.reloads.mu.Unlock()
	if !dry {
		r.notify(handover.IsReloading()...)
		defer r.notify(handover.IsReady)
	}
	next, changes, err := r.readAgain()
	result := reloadWould
	switch {
	case err != nil:
		result = reloadRefused
	case len(changes) == 0:
		result = reloadUnchanged
	case !dry:
		result = reloadApplied
		if err = r.change(next, changes); err != nil {
			result = reloadRefused
		}
	}
	if dry {
		return reloadReport{Result: result, Changes: changes, Hash: configHash(next), Generation: r.reloads.state.Load().Generation}, err
	}
	return r.noteReload(why, result, changes, err)
}

// noteReload counts and logs.
func (r *router) noteReload(why, result string, changes []delta.Change, err error) (reloadReport, error) {
	now := *r.reloads.state.Load()
	switch result {
	case reloadRefused:
		r.reloads.counts[2].Add(1)
		now.Error, now.Failed = err.Error(), time.Now()
		r.log.Error("the configuration stays as it was: what was read cannot be used", "asked_by", why, "file", now.File, "error", err)
	case reloadUnchanged:
		r.reloads.counts[1].Add(1)
		now.Error, now.Failed = "", time.Time{}
		r.log.Info("the configuration was read again: nothing in it changed", "asked_by", why, "file", now.File)
	default:
		r.reloads.counts[0].Add(1)
		now = configState{File: now.File, Hash: configHash(*r.settings()), Generation: now.Generation + 1, Loaded: time.Now()}
		for _, c := range changes {
			r.log.Info("setting changed", "change", c.String())
		}
		r.log.Info("the configuration was read again and is in force", "asked_by", why, "file", now.File, "changes", len(changes), "generation", now.Generation, "hash", now.Hash)
	}
	r.reloads.state.Store(&now)
	return reloadReport{Result: result, Changes: changes, Hash: now.Hash, Generation: now.Generation}, err
}

// errNoFile says that there is nothing to read.
var errNoFile = errors.New("there is nothing to read again: the router was started without a configuration file (flag --config)")

// readAgain reads the configuration and holds it against the one in force.
func (r *router) readAgain() (next config.Config, changes []delta.Change, err error) {
	if r.reloads.load == nil {
		return *r.settings(), nil, errNoFile
	}
	if next, err = r.reloads.load(); err != nil {
		return next, nil, err
	}
	if len(next.Workers) == 0 && !next.Discovery.Any() {
		if !r.reloads.found {
			return next, nil, errors.New("workers: it names none, and none are looked for: all that there are would leave (settings workers, discovery)")
		}
		next.Workers = r.settings().Workers
	}
	if err := checkWorkers(next); err != nil {
		return next, nil, err
	}
	changes = delta.Of(*r.settings(), next, nil)
	if some := delta.Restart(changes); len(some) > 0 {
		lines := []string{fmt.Sprintf("%s would change that needs a restart, so that nothing was changed:", counted(len(some), "setting"))}
		for _, c := range some {
			lines = append(lines, c.String())
		}
		return next, changes, &restartError{errors.New(strings.Join(lines, "\n")), some}
	}
	return next, changes, nil
}

// restartError names settings that change with a restart only.
type restartError struct {
	error
	settings []delta.Change
}

// change goes by another configuration. All that may fail comes first; on an error nothing changed.
func (r *router) change(next config.Config, changes []delta.Change) error {
	was := *r.settings()
	set, problems := pools.New(next.PoolOptions())
	if len(problems) > 0 {
		return errors.New(problems[0].String())
	}
	prices := models.PricesOf(next.ModelOptions())
	desk := deskOptions(next)
	var err error
	if next.Tenants.File != "" {
		if desk.Tenants, err = readTenants(next.Tenants.File, prices); err == nil {
			err = desk.Tenants.CheckClasses(desk.Classes)
		}
	} else if next.Tenants.KeysEnv != "" {
		desk.Tenants, err = tenantsOf(next.Tenants.KeysEnv)
	}
	if err != nil {
		return err
	}
	decisions, reopened := r.decisions.Load(), was.DecisionLog != next.DecisionLog
	if reopened {
		if decisions, err = openDecisions(next, r.log); err != nil {
			return err
		}
	}
	giveUp := func(err error) error {
		if reopened && decisions != nil {
			decisions.Close()
		}
		return err
	}
	if err := r.members.join(was.Workers, next); err != nil {
		return giveUp(err)
	}
	if err := r.gate.Use(r.gateSettings(was, next, orNone(set, next.PoolOptions()))); err != nil {
		r.members.rejoin(was.Workers)
		return giveUp(err)
	}
	r.goBy(was, next, desk.Tenants, decisions)
	return nil
}

// gateSettings are those that the gate takes in one step, with the labels of workers that stay.
func (r *router) gateSettings(was, next config.Config, set *pools.Set) gate.Settings {
	s := gate.Settings{Fleet: fleetOptions(next), Room: next.Queue.Room(), Pools: set, Prices: models.PricesOf(next.ModelOptions()).Of, Labels: map[string][]string{}}
	if was.Policy != next.Policy { // else one that was set at the admin port stays
		s.Policy = next.Policy
	}
	if next.Queue.Enabled {
		o := queueOptions(next)
		s.Queue = &o
	}
	if was.Timeouts != next.Timeouts {
		o := dialOptions(next, r.safety.certs.DialTLS)
		s.Dial = &o
	}
	for _, w := range next.Workers {
		for _, id := range fleetIDs(w) {
			s.Labels[id] = w.AllLabels()
		}
	}
	return s
}

// goBy is what cannot fail any more: the configuration was found good, and so was each of these when it was.
func (r *router) goBy(was, next config.Config, tenants *tenant.Table, decisions *declog.Writer) {
	failed := func(part string, err error) {
		if err != nil {
			r.log.Error("a part of the configuration is not in force", "part", part, "error", err)
		}
	}
	r.cfg.Store(&next)
	for _, p := range r.choice.Use(next.ModelOptions()) {
		failed("models", errors.New(p.String()))
	}
	for _, m := range next.Models {
		r.metrics.KnowModel(m.Name)
	}
	desk := deskOptions(next)
	desk.Tenants = tenants
	failed("tenants", r.desk.Use(time.Now(), desk))
	if was.Tenants.File != next.Tenants.File {
		r.reloads.leaveTenants()
		_, err := r.followTenants(next.Tenants.File)
		failed("tenants.file", err)
	}
	r.proxy.Use(r.proxyOptions(next))
	if old := r.decisions.Swap(decisions); old != decisions && old != nil {
		old.Close()
	}
	if h, ok := r.log.Handler().(levelled); ok {
		h.at.Set(next.Level())
		h.lines.SetMost(next.LogLinesMax)
	}
	r.members.follow(next)
	r.members.rejoin(next.Workers)
}

// levelled is a log's handler whose least level may change, and how many lines of one message there may be.
type levelled struct {
	slog.Handler
	at    *slog.LevelVar
	lines *hush.Table
}
