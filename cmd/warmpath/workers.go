package main

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/roster"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// addWorkers puts what one entry of the configuration stands for into the fleet: one worker, or one a data-parallel rank. When one
// cannot be added, none is.
func (r *router) addWorkers(w config.Worker) error {
	if w.Ranks == 0 {
		return r.addWorker(w, w.ID, "")
	}
	for rank := range w.Ranks {
		if err := r.addWorker(w, rankID(w.ID, rank), strconv.Itoa(rank)); err != nil {
			for added := range rank {
				r.removeWorker(rankID(w.ID, added))
			}
			return err
		}
	}
	return nil
}

func rankID(id string, rank int) string { return id + "-dp" + strconv.Itoa(rank) }

// addWorker puts a worker into the fleet and starts asking it what it is.
func (r *router) addWorker(w config.Worker, id, rank string) error {
	to, err := r.safety.reach(r.settings().Keyed(w), func(key string) { r.rekey(id, key) })
	if err != nil {
		return err
	}
	in := gate.Worker{ID: id, URL: w.URL, Key: to.key, InFlightMax: w.InFlightMax, Rank: rank, Labels: w.AllLabels()}
	if w.Model != "" {
		in.Models = []string{w.Model}
	}
	r.changes.Lock()
	defer r.changes.Unlock()
	added, err := r.gate.Add(in)
	if err != nil {
		to.stop()
		return err
	}
	r.unreach(added.ID) // as it was before it drained
	r.configured[added.ID], r.reached[added.ID] = w, to
	for _, m := range in.Models {
		r.metrics.KnowModel(m)
	}
	r.metrics.Worker(added.ID)
	r.telemetry.Watch(telemetry.Target{ID: added.ID, URL: w.URL, Key: to.key, Rank: rank, GPUURL: w.GPUMetrics, GPUs: w.GPUList(), Incarnation: added.Incarnation})
	return nil
}

// rekey has a worker's new credential used from now on: by requests, by telemetry, and by whatever else asks it.
func (r *router) rekey(id, key string) {
	r.changes.Lock()
	defer r.changes.Unlock()
	w, ok := r.configured[id]
	incarnation, rank, known := r.gate.Rekey(id, key)
	if !ok || !known {
		return
	}
	to := r.reached[id]
	to.key = key
	r.reached[id] = to
	r.telemetry.Watch(telemetry.Target{ID: id, URL: w.URL, Key: key, Rank: rank, GPUURL: w.GPUMetrics, GPUs: w.GPUList(), Incarnation: incarnation})
}

// unreach forgets how a worker was reached. It is called with changes held.
func (r *router) unreach(id string) {
	if to, ok := r.reached[id]; ok {
		to.stop()
		delete(r.reached, id)
	}
}

// signalsMissing are the load signals that an engine does not tell. They are unknown: neutral in every score, never read as idle.
func signalsMissing(c fleet.Counts) []string {
	var names []string
	for _, s := range []struct {
		has  fleet.Has
		name string
	}{{fleet.HasRunning, "running"}, {fleet.HasWaiting, "waiting"}, {fleet.HasKVUsage, "kv_usage"}} {
		if c.Has&s.has == 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// changed is how a worker's settings changed. It goes on as it is under other labels, which pools go by, another credential, or another bound;
// with any other change it is another worker.
func changed(was, is config.Worker) roster.Difference {
	same := func(w config.Worker) config.Worker {
		w.Labels, w.Pool, w.Key, w.KeyFile, w.InFlightMax = nil, "", "", "", 0
		return w
	}
	switch {
	case !reflect.DeepEqual(same(was), same(is)):
		return roster.Other
	case !slices.Equal(was.AllLabels(), is.AllLabels()) || was.Key != is.Key || was.KeyFile != is.KeyFile || was.InFlightMax != is.InFlightMax:
		return roster.Relabelled
	}
	return roster.Same
}
