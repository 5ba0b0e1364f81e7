package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
)

// adminTokenEnv is where commands find the token of the admin port when no flag says.
const adminTokenEnv = "WARMPATH_ADMIN_TOKEN"

// adminFlags say where a router's admin port is, and how it is entered.
type adminFlags struct {
	url           string
	tokenFile     string
	ca, cert, key string
}

func (a *adminFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&a.url, "admin", "http://"+config.Default().Admin, "admin port of the router")
	flags.StringVar(&a.tokenFile, "admin-token-file", "", "file with the token that the admin port asks for (default: the environment's "+adminTokenEnv+")")
	flags.StringVar(&a.ca, "admin-ca", "", "roots that the certificate of an https admin port must come from (PEM), in place of the system's")
	flags.StringVar(&a.cert, "admin-cert", "", "certificate that is shown to the admin port (PEM)")
	flags.StringVar(&a.key, "admin-cert-key", "", "its private key")
	for _, name := range []string{"admin-ca", "admin-cert", "admin-cert-key"} {
		command.MarkFlagFilename(name, "pem", "crt", "key")
	}
}

// request makes one request to the admin port, with its token.
func (a *adminFlags) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	q, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(a.url, "/")+path, body)
	if err != nil || q.URL.Host == "" {
		return nil, usageError{fmt.Errorf("--admin %q is no address; write http://host:port", a.url)}
	}
	token := os.Getenv(adminTokenEnv)
	if a.tokenFile != "" {
		text, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-token-file: %w", err)}
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token != "" {
		q.Header.Set(guard.HeaderToken, token) // a header of the request that is explained may be Authorization
	}
	return q, nil
}

// client talks to the admin port. No proxy of the environment stands before it, and no redirect takes its token elsewhere.
func (a *adminFlags) client() (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		text, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-ca: %w", err)}
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, usageError{fmt.Errorf("--admin-ca %s holds no certificate in PEM form", a.ca)}
		}
	}
	if a.cert != "" || a.key != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-cert, --admin-cert-key: %w", err)}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// do sends a request and reads its answer, which is 2xx; any other is an error.
func (a *adminFlags) do(q *http.Request, bytesMax int64) ([]byte, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("%s does not answer: is it a router's admin port (--admin; serve prints it when it starts)? %w", a.url, err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, bytesMax))
	if err != nil {
		return nil, fmt.Errorf("%s broke off: %w", a.url, err)
	}
	if answer.StatusCode/100 != 2 {
		err := refusedBy(a.url, answer.StatusCode, said)
		if answer.StatusCode == http.StatusUnauthorized {
			err = fmt.Errorf("%w; show one by --admin-token-file or %s", err, adminTokenEnv)
		}
		return nil, err
	}
	return said, nil
}

// adminAnswerBytesMax bounds what a router may answer: some 2 KB a worker.
const adminAnswerBytesMax = 64 << 20

// call asks the admin port and decodes its answer into out.
func (a *adminFlags) call(ctx context.Context, method, path string, out any) error {
	q, err := a.request(ctx, method, path, nil)
	if err != nil {
		return err
	}
	said, err := a.do(q, adminAnswerBytesMax)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(said, out); err != nil {
		return fmt.Errorf("%s answered what no router's admin port answers (--admin): %w", a.url, err)
	}
	return nil
}

// refusalError is what an admin port had against a request.
type refusalError struct {
	status int
	text   string
}

func (e *refusalError) Error() string { return e.text }

func refusedBy(admin string, status int, said []byte) error {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text := fmt.Sprintf("%s answered %d: %q; is it a router's admin port (--admin)?", admin, status, said[:min(len(said), answerShownMax)])
	if json.Unmarshal(said, &answer) == nil && answer.Error.Message != "" {
		text = fmt.Sprintf("%s answered %d: %s", admin, status, answer.Error.Message)
	}
	return &refusalError{status, text}
}
