package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// listed runs `warmpath tenant list`.
func listed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := tenantListCommand()
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTenantsAreListedWithWhatTheyUse(t *testing.T) {
	w := newWorker(t, func(c *call) { metered(c, 100, 10, 0) })
	rt := start(t, priced(t, "    spend_per_day: 2.5\n    requests_per_minute: 1\n"), w)
	if text, err := listed(t, "--admin", rt.AdminURL()); err != nil || !strings.HasPrefix(text, "no tenant has asked") {
		t.Errorf("%q, %v", text, err)
	}
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if r := rt.post("/v1/chat/completions", bounded("x", 10), "X-Api-Key", searchKey); r.status != status {
			t.Fatal(r.status, r.body)
		}
	}
	rt.idle()
	text, err := listed(t, "--admin", rt.AdminURL())
	if err != nil || !regexp.MustCompile(`(?m)^search +0 +1 +110 +0\.0002 +2\.5 +1 +requests_per_minute 1$`).MatchString(text) {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = listed(t, "--admin", rt.AdminURL(), "--json")
	var all []tenantState
	if err != nil || json.Unmarshal([]byte(text), &all) != nil || len(all) != 1 || all[0].Tenant != "search" || all[0].Refused["requests_per_minute"] != 1 {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := listed(t, "--admin", "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "--admin") {
		t.Errorf("%v", err)
	}
}
