package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/warmpath/warmpath/internal/fleet"
)

// gpuFamilies are those of NVIDIA's DCGM exporter and AMD's device metrics exporter. Memory is in MiB there and in MB here; only its
// share is used. The profiling counter, where it is on, says more than the older utilisation, which is 1 while any kernel runs.
var gpuFamilies = map[string]family{
	"DCGM_FI_DEV_GPU_UTIL":          gpuPercent,
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE": gpuShare,
	"DCGM_FI_DEV_FB_USED":           gpuUsed,
	"DCGM_FI_DEV_FB_FREE":           gpuFree,
	"gpu_gfx_activity":              gpuPercent,
	"gpu_used_vram":                 gpuUsed,
	"gpu_total_vram":                gpuTotal,
	"amd_gpu_gfx_activity":          gpuPercent,
	"amd_gpu_used_vram":             gpuUsed,
	"amd_gpu_total_vram":            gpuTotal,
}

// gpuWatch is the exporter of one worker's GPUs.
type gpuWatch struct {
	client  *client
	path    string
	gpus    []string
	failing string // the last failure told to the log
}

// newGPUWatch returns nil for a worker whose GPUs nobody tells of. The worker's key is not the exporter's and is not sent there.
func newGPUWatch(t Target, o *Options) *gpuWatch {
	u, err := url.Parse(t.GPUURL)
	if t.GPUURL == "" || err != nil {
		return nil
	}
	path := u.RequestURI()
	if path == "/" {
		path = "/metrics"
	}
	return &gpuWatch{client: newClient(Target{URL: u.Scheme + "://" + u.Host}, o), path: path, gpus: t.GPUs}
}

// read adds what the exporter says to c. A failure leaves it out and is told to the log when it is new: the engine's own counts do not
// depend on it.
func (g *gpuWatch) read(ctx context.Context, c *fleet.Counts, bytesMax int64, log *slog.Logger) {
	if g == nil {
		return
	}
	x := exposition{wanted: gpuFamilies, gpus: g.gpus}
	err := g.client.get(ctx, g.path, func(resp *http.Response) error { return x.read(resp, bytesMax) })
	t := x.own()
	busy, ok := t.mean(gpuShare, gpuShare)
	if !ok {
		busy, ok = t.mean(gpuPercent, gpuPercent)
		busy /= 100
	}
	total := t.sum[gpuTotal] + t.sum[gpuUsed] + t.sum[gpuFree]
	if t.n[gpuTotal] > 0 {
		total = t.sum[gpuTotal]
	}
	reason := ""
	switch {
	case err != nil:
		reason = err.Error()
	case !ok:
		reason = "the page shows no GPU that is this worker's (settings gpu_metrics, gpus)"
	default:
		c.GPUUsage, c.Has = min(busy, 1), c.Has|fleet.HasGPU
		if t.n[gpuUsed] > 0 && total > t.sum[gpuUsed] {
			c.GPUMemory, c.Has = t.sum[gpuUsed]/total, c.Has|fleet.HasGPUMemory
		}
	}
	if reason != g.failing && ctx.Err() == nil {
		if g.failing = reason; reason != "" {
			log.Warn("no word of the worker's GPUs", slog.String("error", reason))
		}
	}
}

func (g *gpuWatch) close() {
	if g != nil {
		g.client.close()
	}
}
