package kube

// Pod is a pod, as far as routing to it goes.
type Pod struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		NodeName   string      `json:"nodeName"`
		Containers []Container `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		PodIP      string      `json:"podIP"`
		Conditions []Condition `json:"conditions"`
	} `json:"status"`
}

// Container is one of a pod's.
type Container struct {
	Ports []struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
	} `json:"ports"`
}

// Condition is one of a pod's.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func (p *Pod) meta() *Meta { return &p.Metadata }

// Ready says whether its readiness probes succeed.
func (p *Pod) Ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// Over says whether its containers have ended for good.
func (p *Pod) Over() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// Slice is an EndpointSlice (discovery.k8s.io/v1): some endpoints of a Service, all with the same ports.
type Slice struct {
	Metadata    Meta       `json:"metadata"`
	AddressType string     `json:"addressType"` // IPv4, IPv6 or FQDN
	Endpoints   []Endpoint `json:"endpoints"`
	Ports       []Port     `json:"ports"`
}

func (s *Slice) meta() *Meta { return &s.Metadata }

// Port is one of a slice's.
type Port struct {
	Name string `json:"name"`
	Port int    `json:"port"`
}

// Endpoint is one pod behind a Service.
type Endpoint struct {
	Addresses  []string `json:"addresses"`
	NodeName   string   `json:"nodeName"`
	Zone       string   `json:"zone"`
	Conditions struct {
		Ready       *bool `json:"ready"`
		Serving     *bool `json:"serving"`
		Terminating *bool `json:"terminating"`
	} `json:"conditions"`
	TargetRef *struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"targetRef"`
}

// Ready says whether it may get new requests; what is not told is so. A Service that publishes addresses that are not ready calls
// terminating ones ready too.
func (e *Endpoint) Ready() bool {
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	return ready && (e.Conditions.Terminating == nil || !*e.Conditions.Terminating)
}
