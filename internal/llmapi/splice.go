package llmapi

// Edit replaces the bytes of Span by Text; an empty span inserts.
type Edit struct {
	Span
	Text []byte
}

// Splice returns a copy of body with the edits made. They must be sorted and must not overlap. Every other byte is
// as it was, which keeps numbers, key order and unknown fields intact.
func Splice(body []byte, edits ...Edit) []byte {
	size := len(body)
	for _, e := range edits {
		size += len(e.Text) - e.Len()
	}
	out := make([]byte, 0, size)
	at := 0
	for _, e := range edits {
		out = append(out, body[at:e.Start]...)
		out = append(out, e.Text...)
		at = e.End
	}
	return append(out, body[at:]...)
}

// InjectUsage returns the edits that make an engine report usage in the stream, nil when there is nothing to do: the
// client asked itself, the request does not stream, or its API reports usage anyway.
func (r *Request) InjectUsage(body []byte) []Edit {
	return nil
}
