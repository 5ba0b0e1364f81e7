package main

import (
	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
)

// accessFlags are the flags of serve about who may come in, and how; the file has more.
type accessFlags struct {
	data, admin     certs.ServerFiles
	workers         certs.WorkerFiles
	token, isolated string
	open            bool
}

func (f *accessFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.data.Cert, "tls-cert", "", "certificate of the data port (PEM); read again when it changes, as all files here")
	flags.StringVar(&f.data.Key, "tls-key", "", "its private key")
	flags.StringVar(&f.data.ClientCA, "tls-client-ca", "", "roots of the certificates that clients have to show")
	flags.StringVar(&f.admin.Cert, "admin-tls-cert", "", "certificate of the admin port (PEM)")
	flags.StringVar(&f.admin.Key, "admin-tls-key", "", "its private key")
	flags.StringVar(&f.admin.ClientCA, "admin-tls-client-ca", "", "roots of the certificates that operators have to show")
	flags.StringVar(&f.token, "admin-token-file", "", "file with the token that opens the admin port, or its digest; needed where that is reached from beyond this machine")
	flags.BoolVar(&f.open, "admin-open", false, "let everybody in who reaches the admin port, also from beyond this machine")
	flags.StringVar(&f.isolated, "isolate", config.IsolateNone, "tenant: tenants share no cached prefixes; none: they do")
	f.workerFlags(cmd)
	cmd.RegisterFlagCompletionFunc("isolate", cobra.FixedCompletions([]string{config.IsolateNone, config.IsolateTenant}, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"tls-cert", "tls-key", "tls-client-ca", "admin-tls-cert", "admin-tls-key", "admin-tls-client-ca"} {
		cmd.MarkFlagFilename(name, "pem", "crt", "key")
	}
}

// workerFlags are those that doctor has as well.
func (f *accessFlags) workerFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.workers.CA, "worker-ca", "", "roots that the certificates of https workers must come from (PEM), in place of the system's")
	cmd.Flags().StringVar(&f.workers.Cert, "worker-cert", "", "certificate that is shown to https workers (PEM)")
	cmd.Flags().StringVar(&f.workers.Key, "worker-cert-key", "", "its private key")
	for _, name := range []string{"worker-ca", "worker-cert", "worker-cert-key"} {
		cmd.MarkFlagFilename(name, "pem", "crt", "key")
	}
}

// change puts the flags that were given into a configuration.
func (f *accessFlags) change(c *config.Config, given func(name string, set func())) {
	given("tls-cert", func() { c.TLS.Cert = f.data.Cert })
	given("tls-key", func() { c.TLS.Key = f.data.Key })
	given("tls-client-ca", func() { c.TLS.ClientCA = f.data.ClientCA })
	given("admin-tls-cert", func() { c.AdminTLS.Cert = f.admin.Cert })
	given("admin-tls-key", func() { c.AdminTLS.Key = f.admin.Key })
	given("admin-tls-client-ca", func() { c.AdminTLS.ClientCA = f.admin.ClientCA })
	given("worker-ca", func() { c.WorkerTLS.CA = f.workers.CA })
	given("worker-cert", func() { c.WorkerTLS.Cert = f.workers.Cert })
	given("worker-cert-key", func() { c.WorkerTLS.Key = f.workers.Key })
	given("admin-open", func() { c.Access.Open = f.open })
	given("isolate", func() { c.Isolate = f.isolated })
	given("admin-token-file", func() {
		c.Access.Tokens = append(c.Access.Tokens, guard.Entry{Name: "--admin-token-file", Role: guard.Operate.String(), File: f.token})
	})
}
