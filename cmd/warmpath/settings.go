package main

import (
	"fmt"
	"log/slog"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/proxy"
)

// What each room is told of the configuration, at start and when it is read again.

// settings are those in force. They are not to be changed.
func (r *router) settings() *config.Config { return r.cfg.Load() }

func fleetOptions(c config.Config) fleet.Options {
	e := c.Ejection
	return fleet.Options{EjectAfter: e.After, EjectFor: e.First, EjectMax: e.Max, Probes: e.Probes, SlowStart: e.SlowStart, Window: e.Window, WindowMin: e.WindowMin,
		OutShareMax: e.ShareMax, Strict: e.Strict, Canaries: e.Canary > 0, StaleAfter: c.Telemetry.StaleAfter, InFlightMax: c.InFlightMax}
}

func queueOptions(c config.Config) gate.QueueOptions {
	return gate.QueueOptions{Options: c.Queue.Flow(), Heavy: c.Queue.HeavyRule(), Hold: c.Queue.Hold}
}

// orNone is a set of pools, nil where none are configured: then nobody has to ask where a request belongs.
func orNone(set *pools.Set, o pools.Options) *pools.Set {
	if len(o.Pools) == 0 {
		return nil
	}
	return set
}

// deskOptions are without the tenants.
func deskOptions(c config.Config) admission.Options {
	return admission.Options{Classes: c.Queue.ClassNames(), Class: c.Queue.Class, BodyPriority: c.Queue.BodyPriority, TenantHeader: tenantHeader, TenantsBytesMax: tenantBytesMax}
}

func (r *router) proxyOptions(c config.Config) proxy.Options {
	o := proxy.DefaultOptions()
	o.BodyBytesMax, o.RetriesMax, o.InjectUsage, o.ExplainHeaders = int64(c.BodyBytesMax), c.RetriesMax, c.InjectUsage, c.ExplainHeaders
	o.SpoolBytes, o.SpoolDir, o.SpoolMax, o.CORS = int64(c.BodySpoolBytes), c.BodySpoolDir, int64(c.BodySpoolMax), intake.CORS{Origins: c.CORS.Origins}
	o.ConnectTimeout, o.HeaderTimeout, o.IdleGap = c.Timeouts.Connect, c.Timeouts.Header, c.Timeouts.IdleGap
	o.ClientTimeout, o.BodiesBytesMax = c.Timeouts.Client, r.bodiesMax(c)
	o.Salt, o.Unready = r.salts(c), r.leaving.Load
	if c.Dash.ShowText {
		o.ExcerptBytes = config.ShownTextBytes
	}
	if c.DecisionLog.Text && c.DecisionLog.File != "" {
		o.ExcerptBytes = declog.TextBytesMax + 1 // one more tells that it was cut
	}
	o.Prices, o.EnginePriority, o.TellPosition = models.PricesOf(c.ModelOptions()), c.Queue.EnginePriority, c.Queue.TellPosition
	return o
}

// openDecisions opens the decision log; nil where there is none.
func openDecisions(c config.Config, log *slog.Logger) (*declog.Writer, error) {
	if c.DecisionLog.File == "" {
		return nil, nil
	}
	w, err := declog.Create(declog.Options{Path: c.DecisionLog.File, FileBytesMax: int64(c.DecisionLog.BytesMax), FilesMax: c.DecisionLog.FilesMax,
		Compress: c.DecisionLog.Compress, Text: c.DecisionLog.Text, Log: log})
	if err != nil {
		return nil, fmt.Errorf("the decision log cannot be written (setting decision_log.file): %w", err)
	}
	if c.DecisionLog.Text {
		log.Warn("the decision log has the text of prompts: whoever reads it reads what users wrote (setting decision_log.text)", slog.String("file", c.DecisionLog.File))
	}
	return w, nil
}
