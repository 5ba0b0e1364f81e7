package metrics

import "testing"

func TestPoolsAndChoicesOfModelsAreShown(t *testing.T) {
	text := scrape(t, New(func(s *State) {
		s.Pools = []PoolState{{Pool: "short", Workers: 2, Requests: 7, Spilled: 3}}
		s.Choices = []ChoiceState{{Virtual: "chat", Model: "small", Reason: "cheapest", Requests: 5}}
	}))
	has(t, text, `warmpath_pool_workers{pool="short"} 2`, `warmpath_pool_requests_total{pool="short",way="sent"} 4`,
		`warmpath_pool_requests_total{pool="short",way="spilled"} 3`, `warmpath_model_choices_total{model="chat",reason="cheapest",served="small"} 5`)
	hasNot(t, scrape(t, New(nil)), "warmpath_pool_", "warmpath_model_choices")
}
