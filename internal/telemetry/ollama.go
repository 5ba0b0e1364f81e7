package telemetry

import (
	"context"

	"github.com/warmpath/warmpath/internal/fleet"
)

// ollamaEngine tells what it has loaded, not what it is doing: it is served on the router's own counts.
var ollamaEngine = engine{name: "ollama", usageOption: true}

// ollamaDetails asks for the version, and for the context of the models that are loaded. It returns "" when it is not Ollama that answers.
func ollamaDetails(ctx context.Context, c *client, info *fleet.Info) (version string) {
	var v struct {
		Version string `json:"version"`
	}
	if _, err := c.json(ctx, "/api/version", &v); err != nil || v.Version == "" {
		return ""
	}
	var loaded struct {
		Models []struct {
			Name       string `json:"name"`
			ContextMax int    `json:"context_length"` // since 0.11
		} `json:"models"`
	}
	if _, err := c.json(ctx, "/api/ps", &loaded); err != nil {
		return v.Version
	}
	for _, l := range loaded.Models {
		for i := range info.Models {
			if m := &info.Models[i]; m.ID == l.Name && l.ContextMax > 0 {
				m.ContextMax = l.ContextMax
			}
		}
	}
	return v.Version
}
