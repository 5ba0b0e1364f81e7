package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Place is where an API server is, and as whom it is asked.
type Place struct {
	Kubeconfig string              // file; "": the pod's own service account, else $KUBECONFIG, else ~/.kube/config
	Context    string              // of that file; "" its current one
	Account    string              // folder of the service account; "" where Kubernetes mounts it
	Env        func(string) string // nil: the process's
}

const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// Open finds the API server and returns a client, and the namespace that is meant where none is said. It asks nothing yet.
func Open(p Place) (c *Client, namespace string, err error) {
	if p.Env == nil {
		p.Env = os.Getenv
	}
	if p.Account == "" {
		p.Account = accountFolder
	}
	host, port := p.Env("KUBERNETES_SERVICE_HOST"), p.Env("KUBERNETES_SERVICE_PORT")
	if p.Kubeconfig == "" && p.Context == "" && host != "" && port != "" {
		return inCluster(net.JoinHostPort(host, port), p.Account)
	}
	file, err := p.file()
	if err != nil {
		return nil, "", err
	}
	return fromFile(file, p.Context)
}

func (p Place) file() (string, error) {
	if p.Kubeconfig != "" {
		return p.Kubeconfig, nil
	}
	if files := filepath.SplitList(p.Env("KUBECONFIG")); len(files) > 0 {
		return files[0], nil
	}
	home, err := os.UserHomeDir()
	if err == nil {
		file := filepath.Join(home, ".kube", "config")
		if _, err = os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("neither is this a pod in a cluster, nor is there a kubeconfig (setting kubeconfig of the source, or $KUBECONFIG): %w", err)
}

// inCluster is the API server of the cluster that this process runs in, asked as the pod's service account.
func inCluster(address, account string) (*Client, string, error) {
	authority, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return nil, "", fmt.Errorf("the pod's service account cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, "", fmt.Errorf("%s has no certificate", filepath.Join(account, "ca.crt"))
	}
	namespace, err := os.ReadFile(filepath.Join(account, "namespace"))
	if err != nil {
		return nil, "", fmt.Errorf("the pod's service account cannot be read: %w", err)
	}
	c := client("https://"+address, &tls.Config{RootCAs: pool})
	c.token = tokenIn(filepath.Join(account, "token"))
	return c, strings.TrimSpace(string(namespace)), nil
}

func tokenIn(file string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("the token cannot be read: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
}

func client(base string, t *tls.Config) *Client {
	dial := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{
		Transport: &http.Transport{TLSClientConfig: t, DialContext: dial.DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
			IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10, HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would take the token elsewhere
	}}
}

// kubeconfig is the file, as far as it is understood.
type kubeconfig struct {
	CurrentContext string           `yaml:"current-context"`
	Clusters       []named[cluster] `yaml:"clusters"`
	Contexts       []named[view]    `yaml:"contexts"`
	Users          []named[user]    `yaml:"users"`
}

type named[T any] struct {
	Name    string `yaml:"name"`
	Cluster T      `yaml:"cluster"`
	Context T      `yaml:"context"`
	User    T      `yaml:"user"`
}

type cluster struct {
	Server        string `yaml:"server"`
	ServerName    string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	Authority     string `yaml:"certificate-authority"`
	AuthorityData string `yaml:"certificate-authority-data"`
	Proxy         string `yaml:"proxy-url"`
}

type view struct {
	Cluster   string `yaml:"cluster"`
	User      string `yaml:"user"`
	Namespace string `yaml:"namespace"`
}

type user struct {
	Token           string    `yaml:"token"`
	TokenFile       string    `yaml:"tokenFile"`
	Certificate     string    `yaml:"client-certificate"`
	CertificateData string    `yaml:"client-certificate-data"`
	Key             string    `yaml:"client-key"`
	KeyData         string    `yaml:"client-key-data"`
	Username        string    `yaml:"username"`
	Exec            yaml.Node `yaml:"exec"`
	AuthProvider    yaml.Node `yaml:"auth-provider"`
}

// fromFile reads a kubeconfig. Ways of logging in that need another program are refused: a router has to go on when nobody is there to log
// in; give it a service account's token.
func fromFile(file, context string) (*Client, string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("the kubeconfig cannot be read: %w", err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, "", fmt.Errorf("the kubeconfig %s is not as it should be: %w", file, err)
	}
	wrong := func(format string, args ...any) (*Client, string, error) {
		return nil, "", fmt.Errorf("the kubeconfig %s: %w", file, fmt.Errorf(format, args...))
	}
	if context == "" {
		context = k.CurrentContext
	}
	at, ok := find(k.Contexts, context)
	if !ok {
		return wrong("there is no context %q", context)
	}
	to, ok := find(k.Clusters, at.Context.Cluster)
	if !ok {
		return wrong("there is no cluster %q, which the context %q names", at.Context.Cluster, context)
	}
	as, _ := find(k.Users, at.Context.User) // none: nobody is asked for anything
	if !as.User.Exec.IsZero() || !as.User.AuthProvider.IsZero() {
		return wrong("the user %q logs in by another program (exec, auth-provider), which is not supported; use the token of a service account", at.Context.User)
	}
	if as.User.Username != "" || to.Cluster.Proxy != "" {
		return wrong("passwords and proxy-url are not supported; use the token of a service account")
	}
	if u, err := url.Parse(to.Cluster.Server); err != nil || u.Host == "" {
		return wrong("%q is no address of an API server", to.Cluster.Server)
	}
	folder := filepath.Dir(file)
	t, err := to.Cluster.tls(folder)
	if err == nil {
		err = as.User.certify(t, folder)
	}
	if err != nil {
		return wrong("%w", err)
	}
	c := client(to.Cluster.Server, t)
	switch {
	case as.User.TokenFile != "":
		c.token = tokenIn(within(folder, as.User.TokenFile))
	case as.User.Token != "":
		c.token = func() (string, error) { return as.User.Token, nil }
	}
	namespace := at.Context.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return c, namespace, nil
}

func find[T any](all []named[T], name string) (named[T], bool) {
	for _, n := range all {
		if n.Name == name {
			return n, true
		}
	}
	return named[T]{}, false
}

func within(folder, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(folder, file)
}

// inline is data that stands in the file itself, or in another; nil: neither.
func inline(folder, data, file string) ([]byte, error) {
	switch {
	case data != "":
		return base64.StdEncoding.DecodeString(data)
	case file != "":
		return os.ReadFile(within(folder, file))
	}
	return nil, nil
}

func (c cluster) tls(folder string) (*tls.Config, error) {
	t := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	authority, err := inline(folder, c.AuthorityData, c.Authority)
	if err != nil {
		return nil, fmt.Errorf("its certificate authority cannot be read: %w", err)
	}
	if authority != nil {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(authority) {
			return nil, errors.New("its certificate authority has no certificate")
		}
	}
	return t, nil
}

func (u user) certify(t *tls.Config, folder string) error {
	certificate, err := inline(folder, u.CertificateData, u.Certificate)
	if err != nil || certificate == nil {
		return err
	}
	secret, err := inline(folder, u.KeyData, u.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, secret)
	if err != nil {
		return fmt.Errorf("its client certificate cannot be used: %w", err)
	}
	t.Certificates = []tls.Certificate{pair}
	return nil
}
