package kvfeed

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// settings are where an engine publishes by what it was started with, as SGLang tells them (kv_events_config in /server_info, a string of JSON;
// kv_events, what newer versions make of it). With data-parallel ranks a rank's number is added to each port.
type settings struct {
	Publisher string `json:"publisher"`
	Endpoint  string `json:"endpoint"`
	Replay    string `json:"replay_endpoint"`
	Topic     string `json:"topic"`
	Host      string `json:"endpoint_host"`
	Port      int    `json:"endpoint_port_base"`
}

// endpointDefault is where SGLang publishes when it is told no more than that it is to.
const endpointDefault = "tcp://*:5557"

var errNotPublished = errors.New("the engine publishes no cache events by its own settings (--kv-events-config)")

// Publishes says whether an engine tells by its settings that it publishes cache events; "" are none.
func Publishes(told string) bool {
	_, err := parseSettings(told)
	return err == nil
}

func parseSettings(told string) (settings, error) {
	var s settings
	if told == "" {
		return s, errNotPublished
	}
	var text string
	if json.Unmarshal([]byte(told), &text) == nil {
		told = text
	}
	if err := json.Unmarshal([]byte(told), &s); err != nil {
		return s, fmt.Errorf("the engine's kv_events_config is not understood: %w", err)
	}
	if s.Publisher != "zmq" {
		return s, errNotPublished
	}
	if s.Endpoint == "" {
		if s.Endpoint = endpointDefault; s.Port > 0 {
			s.Endpoint = "tcp://" + net.JoinHostPort(strings.Trim(s.Host, "[]"), strconv.Itoa(s.Port))
		}
	}
	return s, nil
}

// fromSettings is where a worker publishes by its engine's settings.
func fromSettings(t Target) (Source, error) {
	s, err := parseSettings(t.Told)
	if err != nil {
		return Source{}, err
	}
	if t.Rank < 0 && t.Ranks > 1 {
		return Source{}, severalRanks(t.Ranks)
	}
	if s.Port == 0 && !bound(s.Endpoint) {
		return Source{}, fmt.Errorf("the engine connects to %s in place of publishing there, as its address has no * in it: start it with one such as %s (--kv-events-config), "+
			"or have the router listen there (workers[].events: bind+%s)", s.Endpoint, endpointDefault, s.Endpoint)
	}
	source := Source{Topic: s.Topic, Found: foundBySettings}
	for _, e := range []struct {
		told string
		into *string
	}{{s.Endpoint, &source.Endpoint}, {s.Replay, &source.Replay}} {
		if e.told == "" {
			continue
		}
		shifted, err := shift(e.told, t.Rank)
		if err != nil {
			return Source{}, fmt.Errorf("the engine's kv_events_config: %w", err)
		}
		*e.into = reachable(shifted, hostOf(t.URL))
	}
	return source, nil
}

// severalRanks is why so many ranks that are one worker are not followed: a request's tokens are cached where its rank is, which nobody knows.
type severalRanks int

func (n severalRanks) Error() string {
	return fmt.Sprintf("the engine has %d data-parallel ranks, each with a cache of its own: have workers[].ranks tell them apart", int(n))
}

// bound says whether an engine listens at an endpoint: by its form alone, as ZeroMQ's users have it.
func bound(endpoint string) bool {
	return strings.Contains(endpoint, "*") || strings.Contains(endpoint, "::") || strings.HasPrefix(endpoint, "ipc://")
}

// shift is a rank's endpoint.
func shift(endpoint string, rank int) (string, error) {
	if rank <= 0 {
		return endpoint, nil
	}
	i := strings.LastIndexByte(endpoint, ':')
	port, err := strconv.Atoi(endpoint[i+1:])
	if err != nil {
		return "", fmt.Errorf("%q has no port, to which a rank's number is added", endpoint)
	}
	return endpoint[:i+1] + strconv.Itoa(port+rank), nil
}
