package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
)

// healthcheckCommand is `warmpath healthcheck`: what a container without a shell runs to learn whether its router lives.
func healthcheckCommand() *cobra.Command {
	var url string
	var timeout time.Duration
	var insecure bool
	command := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running router whether it is well; exit code 0 or 1",
		Long: `healthcheck asks one URL and ends with 0 when the answer is 2xx, else with 1. It is the health check of images that hold
nothing but this binary. /healthz answers while the process lives; /readyz also wants a worker, and no drain under way.`,
		Example: `  warmpath healthcheck
  warmpath healthcheck --url http://127.0.0.1:8800/readyz --timeout 1s
  warmpath healthcheck --url https://127.0.0.1:8800/healthz --insecure-skip-verify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %v: it must be above 0", timeout)}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return healthy(ctx, url, insecure)
		},
	}
	command.Flags().StringVar(&url, "url", "http://"+config.Default().Listen+"/healthz", "what to ask")
	command.Flags().BoolVar(&insecure, "insecure-skip-verify", false, "take any certificate of an https URL: nothing is told it but the question")
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "how long the answer may take")
	return command
}

// answerShownMax bounds how much of a bad answer is repeated.
const answerShownMax = 200

func healthy(ctx context.Context, url string, insecure bool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil || request.URL.Host == "" {
		return usageError{fmt.Errorf("--url %q is no address; write http://host:port/healthz", url)}
	}
	// A transport of its own: no proxy of the environment stands between a container and itself.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, answerShownMax))
	return fmt.Errorf("%s answered %d: %q", url, answer.StatusCode, said)
}
