package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/tenant"
	"github.com/warmpath/warmpath/internal/traces"
)

// replayWaits are the flags of who waits before the fleet, and who may go where.
type replayWaits struct {
	queue, queueSet bool
	config, models  string
	tenants, shares []string
}

func (o *replayWaits) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.queue, "queue", false, "have requests wait for room on a worker as the router does, by the queue of --config or the usual one (default: they wait in the engines)")
	f.StringVar(&o.config, "config", "", "the router's configuration file: its queue, pools and tenants; its workers are those of --fleet")
	f.StringVar(&o.models, "model", "", "the model that all requests ask for, virtual by --config or served by workers with the label model; several are compared (default: its default_model, or its only one)")
	f.StringArrayVar(&o.tenants, "tenant", nil, "a tenant with its traffic, NAME=TRACE, where TRACE may be made up; may be given again: all is replayed together")
	f.StringArrayVar(&o.shares, "share", nil, "a tenant's class and weight in the queue, NAME:class=batch,weight=3; may be given again")
}

// complete helps a shell with the flags of replay.
func (o *replayOptions) complete(command *cobra.Command) {
	fixed := func(flag string, values ...string) {
		_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that there is not
	}
	fixed("policies", append([]string{"all"}, sched.PolicyNames()...)...)
	fixed("caches", "exact", "assumed")
	fixed("constants", "learned", "known")
	fixed("half", "even", "odd")
	_ = command.MarkFlagFilename("config", "yaml", "yml")
	_ = command.MarkFlagFilename(scenarioFlag, "yaml", "yml")
	_ = command.MarkFlagFilename("profile", "json")
	completeFleet(command)
	_ = command.RegisterFlagCompletionFunc("share", func(_ *cobra.Command, _ []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		name, _, _ := strings.Cut(typed, ":")
		for _, class := range config.Default().Queue.ClassNames() {
			all = append(all, name+":class="+class)
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
}

// parts are the tenants' traffic.
func (o *replayOptions) parts() (parts []traces.Part, err error) {
	for _, text := range o.waits.tenants {
		name, traffic, ok := strings.Cut(text, "=")
		if !ok || name == "" || traffic == "" {
			return nil, fmt.Errorf("--tenant %q: write NAME=TRACE, as in chat=chats:rate=10", text)
		}
		t, err := traces.Open(traffic, traces.Options{SkipBad: o.skipBad})
		if err == nil {
			err = t.Load(traceBytesMax)
		}
		if err != nil {
			return nil, fmt.Errorf("--tenant %s: %w", name, err)
		}
		parts = append(parts, traces.Part{Tenant: name, Trace: t})
	}
	return parts, nil
}

// with adds the queue and the pools to a replay.
func (o *replayWaits) with(c *sim.Config) error {
	settings := config.Default()
	if o.config != "" {
		var err error
		if settings, err = config.Load(o.config); err != nil {
			return err
		}
		set, wrong := pools.New(settings.PoolOptions())
		if len(wrong) > 0 { // Load has said so before
			return errors.New(wrong[0].String())
		}
		if len(set.Names()) > 0 {
			c.Pools = set
		}
		if _, err := sim.PoolsIn(c.Pools, c.Fleet); err != nil {
			return err
		}
		if !o.queueSet {
			o.queue = settings.Queue.Enabled
		}
	}
	if err := o.withModels(c, settings); err != nil {
		return err
	}
	if !o.queue {
		if len(o.shares) > 0 {
			return errors.New("--share is of the queue: add --queue")
		}
		c.ByTenant = c.Pools != nil || len(o.tenants) > 0
		return nil
	}
	q := replayQueue(settings.Queue)
	q.Tenants = map[string]sim.Share{}
	if file := settings.Tenants.File; file != "" {
		if err := sharesOf(file, &q); err != nil {
			return err
		}
	}
	for _, text := range o.shares {
		name, share, err := parseShare(text, settings.Queue.ClassNames())
		if err != nil {
			return err
		}
		q.Tenants[name] = share
	}
	c.Queue, c.ByTenant = &q, true
	return nil
}

// withModels adds the models, where there are several or their prices are known.
func (o *replayWaits) withModels(c *sim.Config, settings config.Config) error {
	m := sim.Models{Options: settings.ModelOptions()}
	labelled := slices.ContainsFunc(c.Fleet, func(w lineup.Worker) bool { return w.Label("model") != "" })
	names := o.asks()
	switch {
	case len(names) > 0:
	case m.Default != "":
		names = []string{m.Default}
	case len(m.Models) == 1:
		names = []string{m.Models[0].Name}
	case labelled:
		return errors.New("workers are labelled with models: say with --model which one requests ask for")
	default:
		return nil // all workers serve the one model that there is
	}
	if !labelled && o.models == "" {
		return nil // a configuration may have models that are not asked about here
	}
	for _, m.Ask = range names {
		if _, err := sim.ModelsIn(&m, c.Fleet); err != nil {
			return err
		}
	}
	c.Models = &m
	return nil
}

// asks are the models of --model.
func (o *replayWaits) asks() (names []string) {
	for name := range strings.SplitSeq(o.models, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// sharesOf takes tenants' classes and weights from a router's file of tenants. Requests that name nobody are those without a key.
func sharesOf(file string, q *sim.Queue) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the file of tenants cannot be read (setting tenants.file): %w", err)
	}
	table, err := tenant.Parse(file, text)
	if err != nil {
		return err
	}
	for _, t := range table.Tenants() {
		q.Tenants[t.Name] = sim.Share{Class: t.Class, Weight: t.Weight}
	}
	if t := table.Anonymous(); t != nil {
		q.Tenants[""] = q.Tenants[t.Name]
	}
	return nil
}

// shareMost bounds a weight, as in a file of tenants.
const shareMost = 1000

// parseShare reads "NAME:class=batch,weight=3".
func parseShare(text string, classes []string) (name string, s sim.Share, err error) {
	name, settings, ok := strings.Cut(text, ":")
	if !ok || name == "" || settings == "" {
		return "", s, fmt.Errorf("--share %q: write NAME:class=CLASS,weight=NUMBER, or one of both", text)
	}
	for part := range strings.SplitSeq(settings, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "class":
			if s.Class = value; !slices.Contains(classes, value) {
				return "", s, fmt.Errorf("--share %q: %q is no class; there are: %s", text, value, strings.Join(classes, ", "))
			}
		case "weight":
			if s.Weight, err = strconv.ParseFloat(value, 64); err != nil || !(s.Weight > 0 && s.Weight <= shareMost) {
				return "", s, fmt.Errorf("--share %q: weight %q is not above 0 and at most %d", text, value, shareMost)
			}
		default:
			return "", s, fmt.Errorf("--share %q: unknown key %q; there are: class, weight", text, key)
		}
	}
	return name, s, nil
}

// replayQueue is a configured queue as a replay has it.
func replayQueue(q config.Queue) sim.Queue {
	return sim.Queue{Options: line.Options{Options: q.Flow(), Heavy: q.HeavyRule(), Hold: q.Hold}, Room: q.Room(), Class: q.Class}
}

// completeFleet offers the profiles that a fleet may be of.
func completeFleet(command *cobra.Command) {
	_ = command.RegisterFlagCompletionFunc("fleet", func(_ *cobra.Command, _ []string, typed string) (names []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		for name := range cost.Profiles {
			names = append(names, before+name+":")
		}
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}
