package llmapi

// Usage is what an engine reported. A count that is absent, of the wrong type, negative or absurd has its Has flag
// false. PromptTokens includes cached tokens in every dialect.
type Usage struct {
	PromptTokens, CompletionTokens, CachedTokens int
	HasPrompt, HasCompletion, HasCached          bool
}

// Answer is what a whole (not streamed) reply tells.
type Answer struct {
	Usage   Usage
	ID      string
	Status  string // Responses: completed, failed, incomplete, in_progress
	IsError bool   // an error object, whatever the HTTP status said
}

// ScanReply reads what it can of a reply and never fails: a reply that is not JSON is an empty Answer.
func ScanReply(api API, body []byte) Answer {
	return Answer{}
}
