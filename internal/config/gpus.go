package config

import (
	"net/url"
	"strings"
)

// ranksMax bounds the data-parallel ranks of one address.
const ranksMax = 256

// GPUList is GPUs as a list; nil for all.
func (w Worker) GPUList() []string {
	if strings.TrimSpace(w.GPUs) == "" {
		return nil
	}
	list := strings.Split(w.GPUs, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// gpus refuses what no exporter can be asked for, and more ranks than an address can have.
func (v *verdict) gpus(key string, w Worker) {
	if w.Ranks > ranksMax {
		v.wrong(key+".ranks", "%d is more than %d", w.Ranks, ranksMax)
	}
	if w.GPUMetrics == "" {
		if w.GPUs != "" {
			v.wrong(key+".gpus", "is set, but gpu_metrics is not, so nobody would tell of them; set gpu_metrics or take this out")
		}
		return
	}
	if u, err := url.Parse(w.GPUMetrics); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
		v.wrong(key+".gpu_metrics", "%q is no page; write http://host:port/metrics", w.GPUMetrics)
	}
	for _, g := range w.GPUList() {
		if g == "" {
			v.wrong(key+".gpus", "%q has an empty entry; write numbers with commas between them, such as 0,1", w.GPUs)
		}
	}
}
