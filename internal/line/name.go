package line

import "strings"

// Name is the line of flow in which requests stand that could take the same room: those for a model, or for the one worker only that can
// serve them, and of these those that go to one pool. "" is no worker in particular, and no pool.
func Name(model, only, pool string) string {
	switch {
	case pool != "":
		return model + "\x00" + only + "\x00" + pool
	case only != "":
		return model + "\x00" + only
	}
	return model
}

// Split tells what a Name was made of.
func Split(name string) (model, only, pool string) {
	model, rest, _ := strings.Cut(name, "\x00")
	only, pool, _ = strings.Cut(rest, "\x00")
	return model, only, pool
}
