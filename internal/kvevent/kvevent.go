// Package kvevent follows the cache events of inference engines: which blocks of tokens each of them stored and gave up.
//
// A Tracker takes one engine's messages, checks that none is missing, has what is missing replayed, and keeps kvindex up to date. It is
// pure. A Manager subscribes to all workers of a fleet, over ZeroMQ (vLLM, SGLang) or by polling (TensorRT-LLM), and feeds their trackers:
//
//	m := kvevent.New(index, kvevent.Options{Seed: seed})
//	m.Follow(kvevent.Target{ID: "a", Slot: 3, URL: "http://10.0.0.1:8000", Model: "llama-8b"})
//	...
//	m.Close()
package kvevent
