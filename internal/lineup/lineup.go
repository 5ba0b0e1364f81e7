// Package lineup is the fleet of a replay as it is written: profiles of engines, how many workers each has, and what these are labelled.
//
//	fleet, err := lineup.Parse("h100-8b:6@short,h100-8b:2@long", nil)
//	fmt.Println(len(fleet), fleet[7].Labels(), lineup.Name(fleet))    // 8 [pool=long] h100-8b:6@short,h100-8b:2@long
package lineup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/cost"
)

// workersMax bounds a simulated fleet.
const workersMax = 1000

// Worker is one worker of a simulated fleet.
type Worker struct {
	cost.Profile
	Marks string // its labels as they were written, see Parse
}

// Parse reads "h100-8b:6,a100-8b:2": profiles and how many workers each has, 1 unless said. Beside the known profiles there are
// those of more. Behind an @ stand labels with + between them, as in "h100-8b:2@role=long+zone=a"; a name alone is the label pool.
func Parse(text string, more map[string]cost.Profile) ([]Worker, error) {
	var fleet []Worker
	for part := range strings.SplitSeq(text, ",") {
		head, marks, marked := strings.Cut(strings.TrimSpace(part), "@")
		name, count, counted := strings.Cut(head, ":")
		p, ok := more[name]
		if !ok {
			p, ok = cost.Profiles[name]
		}
		if !ok {
			return nil, fmt.Errorf("fleet %q: unknown profile %q; there are: %s", text, name, strings.Join(profileNames(more), ", "))
		}
		n := 1
		if counted {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 1 || n > workersMax {
				return nil, fmt.Errorf("fleet %q: %q workers of %s; it is a number from 1 to %d", text, count, name, workersMax)
			}
		}
		w := Worker{p, marks}
		if marked && (marks == "" || slices.ContainsFunc(w.Labels(), func(label string) bool { return strings.HasPrefix(label, "=") || strings.HasSuffix(label, "=") })) {
			return nil, fmt.Errorf("fleet %q: %q are no labels; write @POOL, or @KEY=VALUE+KEY=VALUE", text, marks)
		}
		for range n {
			fleet = append(fleet, w)
		}
	}
	if len(fleet) > workersMax {
		return nil, fmt.Errorf("fleet %q: %d workers, more than %d", text, len(fleet), workersMax)
	}
	return fleet, nil
}

func profileNames(more map[string]cost.Profile) []string {
	names := slices.Collect(maps.Keys(cost.Profiles))
	names = append(names, slices.Collect(maps.Keys(more))...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Labels are a worker's labels as pools know them, key=value.
func (w Worker) Labels() (labels []string) {
	if w.Marks == "" {
		return nil
	}
	for mark := range strings.SplitSeq(w.Marks, "+") {
		if mark = strings.TrimSpace(mark); !strings.Contains(mark, "=") {
			mark = "pool=" + mark
		}
		labels = append(labels, mark)
	}
	return labels
}

// Label is the value of a worker's label; "" none.
func (w Worker) Label(key string) string {
	for _, label := range w.Labels() {
		if k, value, _ := strings.Cut(label, "="); k == key {
			return value
		}
	}
	return ""
}

// Scale makes a fleet of so many workers in the same proportions: the profiles in turn, as evenly as they stand.
func Scale(fleet []Worker, workers int) []Worker {
	scaled := make([]Worker, workers)
	for i := range scaled {
		scaled[i] = fleet[i*len(fleet)/workers]
	}
	return scaled
}

// Most is the most tokens of one request that any worker of the fleet takes.
func Most(fleet []Worker) int {
	return slices.MaxFunc(fleet, func(a, b Worker) int { return a.KVTokensMax - b.KVTokensMax }).KVTokensMax
}

// Name is the fleet as Parse reads it.
func Name(fleet []Worker) string {
	var parts []string
	for i := 0; i < len(fleet); {
		n := i
		for n < len(fleet) && fleet[n].Name == fleet[i].Name && fleet[n].Marks == fleet[i].Marks {
			n++
		}
		part := fmt.Sprintf("%s:%d", fleet[i].Name, n-i)
		if fleet[i].Marks != "" {
			part += "@" + fleet[i].Marks
		}
		parts = append(parts, part)
		i = n
	}
	return strings.Join(parts, ",")
}
