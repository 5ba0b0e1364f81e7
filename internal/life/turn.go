package life

import "context"

// Turn is the life of one worker's turn at a request: it ends with the client's connection, and with the worker's membership until Stay.
type Turn struct {
	Life Context
	End  func(cause error) // Life.End, made once by the owner and kept for the turns after it

	client, worker Watch
	stays          bool // the worker's end is no more of interest
}

// Follow has the turn end with the client, and with the worker until Stay.
func (t *Turn) Follow(client context.Context, worker *Context) {
	t.client.Follow(client, t.End)
	worker.Watch(&t.worker, t.End)
}

// Stay says that the worker is to go on even when it leaves the fleet; false: it has left.
func (t *Turn) Stay() bool {
	t.stays = t.stays || t.worker.Stop()
	return t.stays
}

// Leave undoes Follow; false: somebody is ending the turn at this moment, and may look at it still.
func (t *Turn) Leave() bool {
	client := t.client.Stop()
	return t.Stay() && client
}
