package main

import (
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/webhook"
)

func webhookCommand(c *console.Console) *cobra.Command {
	addr := ":8443"
	server := &webhook.Server{Handler: webhook.New(admit)}
	command := &cobra.Command{
		Use:   "webhook",
		Short: "Refuse mistakes when they are applied to Kubernetes",
		Long: `Webhook is a validating admission webhook: what validate refuses in a WasmPlugin,
TrafficExtension, EnvoyExtensionPolicy or EnvoyFilter is refused by "kubectl apply",
with the same words. All else is let through. deploy/webhook has the manifests.

It serves /validate, /healthz and /metrics, and reads the certificate again when it
changes.`,
		Example: "  sluice webhook --tls-cert /tls/tls.crt --tls-key /tls/tls.key",
		Args:    cobra.NoArgs,
		RunE: func(called *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(called.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
			if err != nil {
				return console.Misuse(err)
			}
			c.Say("listening on %s\n", listener.Addr())
			return console.Misuse(server.Serve(ctx, listener))
		},
	}
	f := command.Flags()
	f.StringVar(&addr, "addr", addr, "the address to listen on")
	f.StringVar(&server.Cert, "tls-cert", "", "file with the certificate, PEM")
	f.StringVar(&server.Key, "tls-key", "", "file with its key, PEM")
	console.Must(command.MarkFlagRequired("tls-cert"))
	console.Must(command.MarkFlagRequired("tls-key"))
	return command
}

// admit looks at an object as validate looks at a file. Its lines say nothing here.
func admit(object []byte) (mistakes, warnings []string) {
	found, _, err := find.Configurations("object.json", shown.JSON(object)) // YAML does not take all that JSON does
	if err != nil {
		return nil, []string{"this object could not be looked at: " + shown.Cell(err.Error())}
	}
	for _, c := range checkAll(found) {
		for _, m := range c.Mistakes {
			mistakes = append(mistakes, shown.Cell(m.String()))
		}
		for _, w := range c.Warnings {
			warnings = append(warnings, shown.Cell(w.String()))
		}
	}
	return mistakes, warnings
}
