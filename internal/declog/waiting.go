package declog

// Waiting is how many records wait to be written, and how many may.
func (w *Writer) Waiting() (n, most int) { return len(w.queue), cap(w.queue) }
