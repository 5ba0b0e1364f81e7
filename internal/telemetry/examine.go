package telemetry

import (
	"context"
	"errors"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Examiner asks one engine what a Manager would ask it, each question when its user wants it answered. It is for one goroutine, and
// keeps a connection until Close.
type Examiner struct {
	opts   Options
	client *client
	gpu    *gpuWatch
	found  detection
	ranks  int
}

// ErrNotScraped is an engine that is served on the router's own counts alone.
var ErrNotScraped = errors.New("this kind of engine is not asked for its counts")

// NewExaminer takes the bounds of o; its hooks are not called.
func NewExaminer(t Target, o Options) *Examiner {
	o = o.withDefaults()
	return &Examiner{opts: o, client: newClient(t, &o), gpu: newGPUWatch(t, &o)}
}

// Close gives up the connections.
func (e *Examiner) Close() {
	e.client.close()
	e.gpu.close()
}

// Ranks is how many data-parallel ranks the last Counts told apart, the target's own among them; 0 when the engine names none.
func (e *Examiner) Ranks() int { return e.ranks }

// GPU asks the exporter that the target names what the GPUs do. Has tells what came.
func (e *Examiner) GPU(ctx context.Context) (c fleet.Counts, err error) {
	if e.gpu == nil {
		return c, errors.New("no exporter is named (setting gpu_metrics)")
	}
	e.gpu.read(ctx, &c, e.opts.BodyBytesMax, e.opts.Log)
	if e.gpu.failing != "" {
		return c, errors.New(e.gpu.failing)
	}
	return c, ctx.Err()
}

// Identify asks what the engine is; see Detect for what the error may be.
func (e *Examiner) Identify(ctx context.Context) (fleet.Info, error) {
	var err error
	e.found, err = detect(ctx, e.client, e.opts.BodyBytesMax)
	return e.found.info, err
}

// Counts scrapes the engine that Identify found. Has tells what came; ErrNotScraped that nothing was asked. Info has what the page
// told besides: block size and KV capacity.
func (e *Examiner) Counts(ctx context.Context) (fleet.Counts, fleet.Info, error) {
	if e.found.engine.scrape == nil {
		return fleet.Counts{}, e.found.info, ErrNotScraped
	}
	p, err := e.found.engine.scrape(ctx, e.client, modelNames(e.found.info), e.opts.BodyBytesMax)
	if err != nil {
		return fleet.Counts{}, e.found.info, err
	}
	e.ranks = p.ranks
	if p.blockTokens > 0 {
		e.found.info.BlockTokens = p.blockTokens
	}
	if p.kvTokens > 0 {
		e.found.info.KVTokensMax = p.kvTokens
	}
	return p.counts, e.found.info, nil
}
