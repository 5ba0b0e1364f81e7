package config

import (
	"strings"
	"testing"
)

func TestTracesThatCannotBeSentAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"traces: {sample: 2}", "w.yaml:1: traces.sample: 2 is above 1"},
		{"traces: {endpoint: collector:4318}", "traces.endpoint: \"collector:4318\" is no address"},
		{"traces: {endpoint: 'http://u:hidden@c:1'}", "traces.endpoint: carries a user or password"},
		{"traces: {endpoint: 'ftp://u:hidden@c:1'}", "traces.endpoint: \"...@c:1\""},
		{"traces: {endpoint: 'http://c:1', tls: {ca: /x}}", "traces.tls: is set, and http://c:1 is not reached over TLS"},
		{"traces: {endpoint: 'https://c:1', tls: {cert: /x}}", "traces.tls.key: is not set"},
		{"traces: {protocol: smtp}", "traces.protocol"},
		{"traces: {headers: [{name: 'a b', value: c}]}", "traces.headers[0].name: \"a b\""},
		{"traces: {headers: [{name: a, value: \"hidden\\r\\nb: c\"}]}", "traces.headers[0].value: has a line break"},
	} {
		_, err := Parse("w.yaml", []byte(c.text), noEnv)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}
