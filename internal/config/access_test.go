package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/guard"
)

const protected = `
admin: 0.0.0.0:8801
tls: {cert: c.pem, key: c.key, client_ca: ca.pem}
admin_tls: {cert: a.pem, key: a.key}
admin_access:
  tokens:
    - {name: prometheus, role: read, digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
    - {name: ops, role: operate, file: /run/secrets/ops}
    - {name: ci, role: operate, env: CI_TOKEN}
  hosts: [router.internal]
worker_tls: {ca: fleet.pem}
worker_key_file: fleet.credential
isolate: tenant
workers:
  - {url: https://a, key_file: a.credential, tls: {ca: x.pem, cert: r.pem, key: r.key, server_name: gpu-1}}
  - {url: https://b, tls: {insecure_skip_verify: true}}
`

func TestWhatProtectsPortsAndWorkersArrives(t *testing.T) {
	got, err := Parse("w.yaml", []byte(protected), env(nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := (certs.ServerFiles{Cert: "c.pem", Key: "c.key", ClientCA: "ca.pem"}); got.TLS != want {
		t.Errorf("%+v", got.TLS)
	}
	if want := (certs.ServerFiles{Cert: "a.pem", Key: "a.key"}); got.AdminTLS != want {
		t.Errorf("%+v", got.AdminTLS)
	}
	want := guard.Access{Hosts: []string{"router.internal"}, Tokens: []guard.Entry{
		{Name: "prometheus", Role: "read", Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		{Name: "ops", Role: "operate", File: "/run/secrets/ops"}, {Name: "ci", Role: "operate", Env: "CI_TOKEN"}}}
	if !reflect.DeepEqual(got.Access, want) {
		t.Errorf("%+v", got.Access)
	}
	if got.WorkerTLS.CA != "fleet.pem" || got.Isolate != IsolateTenant || got.Workers[0].KeyFile != "a.credential" || !got.Workers[1].TLS.Insecure ||
		got.Workers[0].TLS != (certs.WorkerFiles{CA: "x.pem", Cert: "r.pem", Key: "r.key", ServerName: "gpu-1"}) {
		t.Errorf("%+v %v %+v", got.WorkerTLS, got.Isolate, got.Workers)
	}
	if own, general := got.Keyed(got.Workers[0]), got.Keyed(got.Workers[1]); own.KeyFile != "a.credential" || general.KeyFile != "fleet.credential" || got.Workers[1].KeyFile != "" {
		t.Errorf("credentials in %s and %s", own.KeyFile, general.KeyFile)
	}
	again, err := Parse("printed.yaml", []byte(Print(got)), env(nil))
	if err != nil || !reflect.DeepEqual(got.Access, again.Access) || !reflect.DeepEqual(got.Workers, again.Workers) {
		t.Errorf("printed, it reads back as %+v, %v", again, err)
	}
}

func TestAUT02TheAdminPortIsNotOpenedBeyondThisMachineUnlessSomethingSaysToWhom(t *testing.T) {
	const token = "admin_access: {tokens: [{name: ops, role: operate, env: T}]}\n"
	for _, c := range []struct {
		text string
		good bool
	}{
		{"admin: 127.0.0.1:1\n", true}, {"admin: localhost:1\n", true}, {"admin: '[::1]:1'\n", true}, {"admin: ''\n", true}, {"", true},
		{"admin: 0.0.0.0:1\n", false}, {"admin: ':1'\n", false}, {"admin: '[::]:1'\n", false}, {"admin: 10.0.0.1:1\n", false}, {"admin: router.internal:1\n", false},
		{"admin: 0.0.0.0:1\n" + token, true}, {"admin: 0.0.0.0:1\nadmin_access: {open: true}\n", true},
		{"admin: 0.0.0.0:1\nadmin_tls: {cert: a, key: b, client_ca: c}\n", true}, {"admin: 0.0.0.0:1\nadmin_tls: {cert: a, key: b}\n", false},
	} {
		_, err := Parse("w.yaml", []byte(c.text), env(nil))
		if (err == nil) != c.good || err != nil && !strings.Contains(err.Error(), "admin_access.tokens") {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

func TestWhatCannotProtectIsRefusedWithItsPlaceAndReason(t *testing.T) {
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	const clear = "wp-this-is-a-token-in-the-clear"
	for _, c := range []struct{ text, want string }{
		{"tls: {cert: a}", "w.yaml:1: tls.key: is not set, and cert is"},
		{"admin_tls: {key: a}", "w.yaml:1: admin_tls.cert: is not set, and key is"},
		{"tls: {client_ca: a}", "w.yaml:1: tls.client_ca: is set, and cert is not"},
		{"worker_tls: {cert: a}", "w.yaml:1: worker_tls.key: is not set"},
		{"worker_tls: {ca: a, insecure_skip_verify: true}", "w.yaml:1: worker_tls.insecure_skip_verify: takes any certificate"},
		{"workers:\n- {url: http://a, tls: {ca: x}}", "w.yaml:2: workers[0].tls: is set, and http://a is not reached over TLS"},
		{"workers:\n- {url: https://a, key: k, key_file: f}", "w.yaml:2: workers[0].key_file: stands beside key"},
		{"worker_key: a\nworker_key_file: b", "w.yaml:2: worker_key_file: stands beside worker_key"},
		{"isolate: tenants", `w.yaml:1: isolate: "tenants" is not known; did you mean tenant?`},
		{"admin_access: {tokens: [{name: a, role: read}]}", "w.yaml:1: admin_access.tokens[0]: needs one of digest, env and file, and has 0"},
		{"admin_access: {tokens: [{name: a, role: read, env: A, file: B}]}", "w.yaml:1: admin_access.tokens[0]: needs one of digest, env and file, and has 2"},
		{"admin_access: {tokens: [{role: read, env: A}]}", "w.yaml:1: admin_access.tokens[0].name: is missing"},
		{"admin_access:\n  tokens:\n  - {name: a, role: read, env: A}\n  - {name: a, role: read, env: B}", `w.yaml:4: admin_access.tokens[1].name: "a" is another token's name`},
		{"admin_access: {tokens: [{name: a, role: write, env: A}]}", `w.yaml:1: admin_access.tokens[0].role: "write" is not known; choose one of read, operate`},
		{"admin_access: {tokens: [{name: a, role: read, digest: " + clear + "}]}", "w.yaml:1: admin_access.tokens[0].digest: want sha256:"},
		{"admin_access: {tokens: [{name: a, role: read, digest: '" + digest + "0'}]}", "w.yaml:1: admin_access.tokens[0].digest: want sha256:"},
		{"admin_access: {hosts: ['http://a']}", `w.yaml:1: admin_access.hosts[0]: "http://a" is no name`},
	} {
		_, err := Parse("w.yaml", []byte(c.text), env(nil))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), clear) {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}
