package llmapi

// Stream watches a stream of server-sent events in passing. It is reusable.
type Stream struct {
	Events            int    // events with data so far, the terminator included
	Tokens            int    // deltas that carried content: one a token with most engines
	FirstContent      bool   // a delta with content has passed
	Usage             Usage  // the latest reported
	ID                string // id of the response
	Err               string // type (or code, or message) of an error event
	FirstEventIsError bool   // the error came before any other event
	Done              bool   // the terminator has passed: [DONE], message_stop, response.completed, .failed, .incomplete
	Outcome           string // Responses: completed, failed, incomplete
	Withheld          int    // usage events not forwarded

	api      API
	withhold bool
}

// Reset prepares s for a new stream. withholdUsage drops the usage event that the client did not ask for.
func (s *Stream) Reset(api API, withholdUsage bool) {
	*s = Stream{api: api, withhold: withholdUsage}
}

// Feed observes b and returns the bytes to forward now. They alias b, or a buffer of s valid until the next call.
// Without withholding they are always b itself.
func (s *Stream) Feed(b []byte) (forward []byte) { return b }

// Flush ends the stream: it returns what was held back.
func (s *Stream) Flush() []byte { return nil }
