package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/kube"
	"github.com/warmpath/warmpath/internal/life"
)

// Kubernetes is the pods of a Service, by its EndpointSlices, or those that a label selector finds, by themselves.
//
// A pod that is ready is a worker. One that terminates, or is not ready any more, gets no new requests and keeps those that it has. One
// that is gone has left. A pod's UID is its instance: another pod at the same address starts with nothing.
type Kubernetes struct {
	Service  string // name of a Service; else
	Selector string // of pods, such as app=vllm; their labels come along
	Place    kube.Place
	// Namespace is where they are; "" the pod's own, or the kubeconfig's.
	Namespace string
	// Ports are names or numbers. None: the one port that there is, or the one that is called http.
	Ports  []string
	Scheme string // http or https; "" http
	Labels []string
	Pace   kube.Pace
}

// SplitKubernetes takes the short form [NAMESPACE/]SERVICE[:PORT,...] or [NAMESPACE/]LABEL=VALUE,...[:PORT,...] apart. What stands before the
// first slash is a namespace, unless it is the prefix of a label, which has dots.
func SplitKubernetes(text string) (k Kubernetes) {
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		text, k.Ports = text[:i], strings.Split(text[i+1:], ",")
	}
	if before, rest, ok := strings.Cut(text, "/"); ok && !strings.ContainsAny(before, ".=") {
		text, k.Namespace = rest, before
	}
	if strings.Contains(text, "=") {
		k.Selector = text
	} else {
		k.Service = text
	}
	return k
}

// kubernetesAgain is how long to wait when there is no way to the API server at all.
const kubernetesAgain = 5 * time.Second

// Follow implements Source.
func (k Kubernetes) Follow(ctx context.Context, tell func([]Worker, error)) {
	c, namespace, err := kube.Open(k.Place)
	for err != nil {
		tell(nil, err)
		if !life.Pause(ctx, kubernetesAgain) {
			return
		}
		c, namespace, err = kube.Open(k.Place)
	}
	defer c.Close()
	if k.Namespace != "" {
		namespace = k.Namespace
	}
	if k.Service != "" {
		kube.Follow(ctx, c, kube.Slices(namespace, k.Service), k.Pace, func(all []kube.Slice, err error) {
			if err != nil {
				tell(nil, err)
				return
			}
			tell(k.ofSlices(all))
		})
		return
	}
	kube.Follow(ctx, c, kube.Pods(namespace, k.Selector), k.Pace, func(pods []kube.Pod, err error) {
		if err != nil {
			tell(nil, err)
			return
		}
		tell(k.ofPods(pods))
	})
}

// ofSlices are the workers of a Service. A pod may be in two slices, for a moment or because it has addresses of both families, and is one worker:
// at its IPv4 address where it has one, whatever order the slices come in.
func (k Kubernetes) ofSlices(all []kube.Slice) (set []Worker, err error) {
	seen := map[string]int{}
	slices.SortFunc(all, func(a, b kube.Slice) int {
		return cmp.Or(strings.Compare(a.AddressType, b.AddressType), strings.Compare(a.Metadata.Name, b.Metadata.Name)) // IPv4 is before IPv6
	})
	for i := range all {
		s := &all[i]
		if s.AddressType == "FQDN" || len(s.Endpoints) == 0 {
			continue
		}
		ports, err := k.ports(s.Ports)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", k.Service, err)
		}
		labels := labelsOf(k.Labels, s.Metadata.Labels)
		for j := range s.Endpoints {
			e := &s.Endpoints[j]
			if len(e.Addresses) == 0 {
				continue
			}
			own := labels
			for _, l := range [][2]string{{"zone", e.Zone}, {"node", e.NodeName}} {
				if l[1] != "" {
					own = append(slices.Clip(own), l[0]+"="+l[1])
				}
			}
			w := Worker{Labels: own, Leaving: !e.Ready()}
			name := e.Addresses[0] // all others are the same pod, says the API
			if r := e.TargetRef; r != nil && r.Kind == "Pod" {
				name, w.Instance = r.Name, r.UID
			}
			set = k.at(set, seen, w, e.Addresses[0], name, ports)
		}
	}
	return set, nil
}

// at adds a pod's workers, one a port. Of two entries of one pod the first counts; of two at one address the one that is ready: the other's pod
// is gone, and its address is in use again.
func (k Kubernetes) at(set []Worker, seen map[string]int, w Worker, address, name string, ports []int) []Worker {
	for _, port := range ports {
		w.URL, w.ID = "http://", net.JoinHostPort(name, strconv.Itoa(port))
		if k.Scheme == "https" {
			w.URL = "https://"
		}
		w.URL += net.JoinHostPort(address, strconv.Itoa(port))
		pod := w.ID + " " + w.Instance
		i, again := seen[pod]
		if !again {
			i, again = seen[w.URL]
		}
		if !again {
			i = len(set)
			set = append(set, w)
		} else if set[i].URL == w.URL && set[i].Leaving && !w.Leaving {
			set[i] = w
		}
		seen[pod], seen[w.URL] = i, i
	}
	return set
}

// ports are those of a slice that are wanted. A number that the slice does not have is asked for all the same: a pod listens where it does.
func (k Kubernetes) ports(has []kube.Port) (ports []int, err error) {
	names := make([]string, 0, len(has))
	for _, p := range has {
		names = append(names, fmt.Sprintf("%s (%d)", p.Name, p.Port))
	}
	if len(k.Ports) == 0 {
		if len(has) == 1 {
			return []int{has[0].Port}, nil
		}
		if i := slices.IndexFunc(has, func(p kube.Port) bool { return p.Name == "http" }); i >= 0 {
			return []int{has[i].Port}, nil
		}
		return nil, fmt.Errorf("which of its ports is it? There are: %s (setting ports of the source)", strings.Join(names, ", "))
	}
	for _, want := range k.Ports {
		if n, err := strconv.Atoi(want); err == nil {
			ports = append(ports, n)
			continue
		}
		i := slices.IndexFunc(has, func(p kube.Port) bool { return p.Name == want })
		if i < 0 {
			return nil, fmt.Errorf("it has no port %q, but: %s (setting ports of the source)", want, strings.Join(names, ", "))
		}
		ports = append(ports, has[i].Port)
	}
	return ports, nil
}

// ofPods are the workers that a selector found. One whose port cannot be told does not keep the others out.
func (k Kubernetes) ofPods(pods []kube.Pod) (set []Worker, err error) {
	seen := map[string]int{}
	for i := range pods {
		p := &pods[i]
		if p.Status.PodIP == "" || p.Over() {
			continue
		}
		var has []kube.Port
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				has = append(has, kube.Port{Name: port.Name, Port: port.ContainerPort})
			}
		}
		ports, wrong := k.ports(has)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("pod %s: %w", p.Metadata.Name, wrong))
			continue
		}
		w := Worker{Instance: p.Metadata.UID, Leaving: p.Metadata.DeletionTimestamp != nil || !p.Ready(), Labels: labelsOf(k.Labels, p.Metadata.Labels)}
		if p.Spec.NodeName != "" {
			w.Labels = append(w.Labels, "node="+p.Spec.NodeName)
		}
		set = k.at(set, seen, w, p.Status.PodIP, p.Metadata.Name, ports)
	}
	if len(set) > 0 {
		err = nil
	}
	return set, err
}

// labelsOf are the labels of an object that its own makers gave it, in order: those of Kubernetes itself say nothing of what it serves.
func labelsOf(first []string, has map[string]string) []string {
	labels := slices.Clone(first)
	for _, name := range sortedKeys(has) {
		domain, _, prefixed := strings.Cut(name, "/")
		if prefixed && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")) && domain != "topology.kubernetes.io" && domain != "app.kubernetes.io" {
			continue
		}
		switch name {
		case "pod-template-hash", "controller-revision-hash", "pod-template-generation":
		case "topology.kubernetes.io/zone":
			labels = append(labels, "zone="+has[name])
		default:
			labels = append(labels, name+"="+has[name])
		}
	}
	return labels
}
