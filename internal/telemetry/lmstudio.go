package telemetry

import (
	"context"

	"github.com/warmpath/warmpath/internal/fleet"
)

// lmStudioEngine tells its models and their contexts, not what it is doing: it is served on the router's own counts.
var lmStudioEngine = engine{name: "lm-studio"}

// lmStudioDetails takes the contexts from LM Studio's own model list: what is loaded, else what the model could have. It reports whether it
// was LM Studio that answered.
func lmStudioDetails(ctx context.Context, c *client, info *fleet.Info) bool {
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			State  string `json:"state"` // loaded, not-loaded
			Max    int    `json:"max_context_length"`
			Loaded int    `json:"loaded_context_length"`
		} `json:"data"`
	}
	if _, err := c.json(ctx, "/api/v0/models", &list); err != nil {
		return false
	}
	known := false
	for _, l := range list.Data {
		known = known || l.State != ""
		for i := range info.Models {
			if m := &info.Models[i]; m.ID == l.ID {
				m.ContextMax = max(0, l.Max)
				if l.Loaded > 0 {
					m.ContextMax = l.Loaded
				}
			}
		}
	}
	return known
}
