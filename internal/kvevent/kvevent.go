// Package kvevent understands the cache events of inference engines: which blocks of tokens each of them stored and gave up.
//
// A Tracker takes one engine's messages, checks that none is missing, says when some have to be replayed, and keeps kvindex up to date:
//
//	t := kvevent.NewTracker(index, kvevent.TrackerOptions{Seed: seed, Model: "llama-8b", Slot: 3, Rank: -1, Replay: true})
//	ask := t.Live(seq, payload)
//	for ask.Wanted {
//		for seq, payload := range replay(ask.From) {
//			t.Replayed(seq, payload)
//		}
//		ask = t.ReplayEnded(true)
//	}
//
// Stamp and Lag tell how late messages come. The room is pure; kvfeed brings the messages.
package kvevent
