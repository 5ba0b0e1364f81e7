package telemetry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Bounds on what an engine may claim about its models.
const (
	modelsMax    = 4096
	nameBytesMax = 512
)

// engine is a kind of engine and how it is scraped; one file each.
type engine struct {
	name        string                                                                              // as fleet.Info.Engine
	health      bool                                                                                // says at healthPath whether it is well
	usageOption bool                                                                                // accepts stream_options.include_usage
	sharesSteps bool                                                                                // works on the prompts of all slots at one time
	salts       fleet.Salts                                                                         // in which requests it takes a cache_salt
	urgency     fleet.Urgency                                                                       // what it makes of a request's priority, unless its settings tell
	scrape      func(ctx context.Context, c *client, models []string, bytesMax int64) (page, error) // nil: recognised, not scraped
}

// openAIEngine is any other server with an OpenAI API: it tells its models, and is served on the router's own counts.
var openAIEngine = engine{name: "openai"}

// owners maps the owned_by of a model list to the engine that writes it.
var owners = map[string]engine{
	"vllm":               vllmEngine,
	"llamacpp":           llamacppEngine,
	"sglang":             sglangEngine,
	"tensorrt_llm":       tensorrtEngine,
	"library":            ollamaEngine,
	"organization_owner": lmStudioEngine,
}

// detection is who answered and how to scrape it.
type detection struct {
	info   fleet.Info
	engine engine
}

// Detect asks a worker what it is: kind, version, models with their context lengths, and where it tells them, block size, KV capacity
// and slots. The error is an *Error: unreachable, refused for want of a key, still loading (503), or no engine at all.
func Detect(ctx context.Context, t Target) (fleet.Info, error) {
	e := NewExaminer(t, DefaultOptions())
	defer e.Close()
	info, err := e.Identify(ctx)
	if err != nil {
		return info, err
	}
	_, info, _ = e.Counts(ctx) // an engine whose counts cannot be had is an engine all the same
	return info, nil
}

// detect asks for the model list, which every engine has and which most sign, then for what the engine so named tells elsewhere.
func detect(ctx context.Context, c *client, bytesMax int64) (detection, error) {
	models, owner, root, err := listModels(ctx, c)
	if err != nil {
		return detection{}, err
	}
	d := detection{info: fleet.Info{Models: models, At: time.Now(), Path: root}, engine: owners[owner]}
	version := ""
	switch d.engine.name {
	case llamacppEngine.name:
		llamacppDetails(ctx, c, &d.info)
	case ollamaEngine.name:
		version = ollamaDetails(ctx, c, &d.info)
	case lmStudioEngine.name:
		lmStudioDetails(ctx, c, &d.info)
	case sglangEngine.name:
		version = sglangDetails(ctx, c, &d.info)
	default:
		var slots int
		if version, slots = vllmVersion(ctx, c); strings.Contains(version, "warmpath") {
			d.engine, d.info.SlotsMax = simulatedEngine, slots
		}
	}
	if d.engine.name == "" {
		d.engine = unsigned(ctx, c, &d.info, bytesMax)
	}
	if version != "" {
		d.info.Version = clip(version)
	}
	d.info.Engine, d.info.UsageOption, d.info.SharesSteps = d.engine.name, d.engine.usageOption, d.engine.sharesSteps
	d.info.Salts = d.engine.salts
	d.info.Urgency = cmp.Or(d.info.Urgency, d.engine.urgency)
	return d, nil
}

// unsigned recognises an engine whose model list names no known owner, by its metrics or its properties.
func unsigned(ctx context.Context, c *client, info *fleet.Info, bytesMax int64) engine {
	names := modelNames(*info)
	for _, e := range []struct {
		engine engine
		wanted map[string]family
	}{{vllmEngine, vllm}, {sglangEngine, sglang}, {llamacppEngine, llamacpp}} {
		p, _, err := scrapeMetrics(ctx, c, "/metrics", e.wanted, names, bytesMax)
		if err != nil {
			break // the page is the same whatever is looked for on it
		}
		if p.counts.Has&(fleet.HasRunning|fleet.HasWaiting|fleet.HasKVUsage) != 0 {
			return e.engine
		}
	}
	if llamacppDetails(ctx, c, info) {
		return llamacppEngine
	}
	if version := ollamaDetails(ctx, c, info); version != "" { // a model pulled from elsewhere is owned by its maker
		info.Version = clip(version)
		return ollamaEngine
	}
	if lmStudioDetails(ctx, c, info) {
		return lmStudioEngine
	}
	return openAIEngine
}

// errNoModels is a 200 that is not a model list.
var errNoModels = errors.New("the answer lists no models; is this an engine with an OpenAI API?")

// listModels reads GET /v1/models. The owner is that of the first model, the root that of the first which is no adapter.
func listModels(ctx context.Context, c *client) (models []fleet.Model, owner, root string, err error) {
	var list struct {
		Data []struct {
			ID          string   `json:"id"`
			OwnedBy     string   `json:"owned_by"`
			Parent      string   `json:"parent"`
			Root        string   `json:"root"`          // vLLM, SGLang
			MaxModelLen int      `json:"max_model_len"` // vLLM, SGLang
			Aliases     []string `json:"aliases"`       // llama.cpp
			Meta        struct {
				ContextMax int `json:"n_ctx"`
			} `json:"meta"` // llama.cpp
		} `json:"data"`
	}
	if _, err := c.json(ctx, "/v1/models", &list); err != nil {
		return nil, "", "", err
	}
	for _, m := range list.Data {
		if m.ID == "" || len(m.ID) > nameBytesMax || len(models) == modelsMax {
			continue
		}
		if len(models) == 0 {
			owner = m.OwnedBy
		}
		model := fleet.Model{ID: m.ID, ContextMax: max(0, m.MaxModelLen, m.Meta.ContextMax)}
		if m.Parent != m.ID {
			model.Parent = clip(m.Parent)
		}
		if root == "" && model.Parent == "" {
			root = path(m.Root)
		}
		for _, a := range m.Aliases {
			if a != "" && a != m.ID && len(a) <= nameBytesMax && len(model.Aliases) < modelsMax {
				model.Aliases = append(model.Aliases, a)
			}
		}
		models = append(models, model)
	}
	if len(models) == 0 {
		return nil, "", "", &Error{Path: "/v1/models", Status: http.StatusOK, Err: errNoModels}
	}
	return models, owner, root, nil
}

// pathBytesMax bounds what an engine may call the path of its model.
const pathBytesMax = 4096

// path is one that an engine names; "" where it is too long to be one, since part of a path is another path.
func path(p string) string {
	if len(p) > pathBytesMax {
		return ""
	}
	return p
}

// Bounds on what an engine may claim about its size: a hundred times what is built. Beyond them a claim is absurd and counts as absent,
// and sums and products of what is left cannot overflow.
const (
	tokensMax = 1e10
	slotsMax  = 1e6
)

// plausible is an Info without absurd sizes.
func plausible(i fleet.Info) fleet.Info {
	within := func(n int, most int) int {
		if n < 0 || n > most {
			return 0
		}
		return n
	}
	i.BlockTokens, i.KVTokensMax, i.SlotsMax = within(i.BlockTokens, tokensMax), within(i.KVTokensMax, tokensMax), within(i.SlotsMax, slotsMax)
	i.Models = slices.Clone(i.Models)
	for n := range i.Models {
		i.Models[n].ContextMax = within(i.Models[n].ContextMax, tokensMax)
	}
	return i
}

func clip(s string) string { return s[:min(len(s), nameBytesMax)] }
