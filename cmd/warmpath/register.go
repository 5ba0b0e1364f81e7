package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/life"
)

const registerLong = `register runs beside an engine and tells a router that it is there, again and again (serve --workers-register). While the engine does not
answer, nothing is told, and the router takes it to have left when enough heartbeats are missed: it drains. Ctrl-C and SIGTERM say goodbye.

The router's admin port is named by --admin; where it asks for a token, one with the role register is enough (docs/DISCOVERY.md). A router that cannot be reached is
tried again with the next heartbeat. One that refuses what it is told, by 400, 401 or 403, ends the command.

`

const registerExample = `  warmpath register --worker http://10.0.0.7:8000 --admin http://router:8801 --admin-token-file /run/secrets/warmpath
  warmpath register --worker http://10.0.0.7:8000 --id gpu-7 --label zone=a --label role=long --heartbeat 2s`

// registerFlags are the flags of `warmpath register`.
type registerFlags struct {
	admin                             adminFlags
	worker, id, model, pool, instance string
	labels                            []string
	heartbeat                         time.Duration
}

// registerCommand is `warmpath register`.
func registerCommand() *cobra.Command {
	var f registerFlags
	command := &cobra.Command{
		Use: "register --worker URL", Short: "Tell a router, again and again, that an engine is there", Long: registerLong + exitCodesUsage, Example: registerExample,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.admin.add(command)
	flags := command.Flags()
	flags.StringVar(&f.worker, "worker", "", "address of the engine as the router reaches it, http://host:port")
	flags.StringVar(&f.id, "id", "", "its name in metrics, logs and headers (default: host and port)")
	flags.StringVar(&f.model, "model", "", "model that it serves, where it cannot tell")
	flags.StringVar(&f.pool, "pool", "", "pool that it is in")
	flags.StringArrayVar(&f.labels, "label", nil, "what pools go by, key=value; repeat for more")
	flags.StringVar(&f.instance, "instance", "", "anything that is another after the engine was started anew (default: the router sees that by itself)")
	flags.DurationVar(&f.heartbeat, "heartbeat", 5*time.Second, fmt.Sprintf("how often it is told, %v to %v", discovery.HeartbeatMin, discovery.HeartbeatMax))
	return command
}

func (f *registerFlags) run(cmd *cobra.Command) error {
	if f.heartbeat < discovery.HeartbeatMin || f.heartbeat > discovery.HeartbeatMax {
		return usageError{fmt.Errorf("--heartbeat %v: it may be %v to %v", f.heartbeat, discovery.HeartbeatMin, discovery.HeartbeatMax)}
	}
	w := config.WorkerAt(f.worker)
	if err := config.Default().CheckWorker(&w); err != nil {
		return usageError{fmt.Errorf("--worker: %w", err)}
	}
	if f.id == "" {
		f.id = w.ID
	}
	body, err := json.Marshal(postedWorker{URL: w.URL, ID: f.id, Model: f.model, Pool: f.pool, Labels: f.labels, Instance: f.instance})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := newLogger(cmd.ErrOrStderr(), config.Default())
	return f.beat(ctx, cmd.OutOrStdout(), log, w.URL, body)
}

// beat tells until ctx ends, or the router will not have it.
func (f *registerFlags) beat(ctx context.Context, out io.Writer, log *slog.Logger, engine string, body []byte) error {
	there := false // as the router was told last
	failing := ""  // as the log was told last
	tell := func(err error, message string) {
		if text := fmt.Sprint(message, err); text != failing {
			failing = text
			log.Warn(message, "error", err)
		}
	}
	for ctx.Err() == nil {
		if err := answers(ctx, engine, f.heartbeat); err != nil {
			tell(err, "the engine does not answer: the router is told nothing")
		} else if err := f.once(ctx, http.MethodPost, "/workers?heartbeat="+url.QueryEscape(f.heartbeat.String()), body); err == nil {
			if !there || failing != "" {
				fmt.Fprintf(out, "%s is registered at %s\n", f.id, f.admin.url)
			}
			there, failing = true, ""
		} else {
			var refused *refusalError
			if errors.As(err, &refused) && (refused.status == http.StatusBadRequest || refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden) {
				return err
			}
			if ctx.Err() == nil {
				tell(err, "the router could not be told: it is tried again")
			}
		}
		life.Pause(ctx, f.heartbeat)
	}
	if !there {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.heartbeat)
	defer cancel()
	if err := f.once(last, http.MethodDelete, "/workers/"+url.PathEscape(f.id)+"?registered=true", nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s has said goodbye\n", f.id)
	return err
}

// once tells the router once, for no longer than a heartbeat.
func (f *registerFlags) once(ctx context.Context, method, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, f.heartbeat)
	defer cancel()
	q, err := f.admin.request(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	_, err = f.admin.do(q, adminBodyBytesMax)
	return err
}

// answers says whether somebody is at an engine's address: any answer counts, because what it is worth is for the router to find out.
func answers(ctx context.Context, engine string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(engine, "/")+"/health", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := client.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	return a.Body.Close()
}
