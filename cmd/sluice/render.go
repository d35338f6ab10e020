package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/render"
)

// rendering is one of the render commands with its flags.
type rendering struct {
	input.Source
	render.Options
	out string
	run func(*render.Options) (render.Result, error)
}

func renderCommand(c *console.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "render",
		Short: "Write complete files for Envoy, and for a relay",
	}
	envoy := &rendering{run: render.Envoy}
	of := envoy.command(c, "envoy", "A configuration for Envoy without a control plane",
		"  sluice render envoy -c plugin.json --redis redis:6379 --upstream app:8080 --out sluice.yaml\n"+
			"  envoy --mode validate -c sluice.yaml", "0.0.0.0:10000", "the configuration's",
		"Envoy with Redis' password (default: the configuration's)")
	envoy.Source.Flag(of)
	of.Flags().StringVar(&envoy.Admin, "admin", "127.0.0.1:9901", "address of Envoy's admin interface")
	of.Flags().StringVar(&envoy.Upstream, "upstream", "upstream:8080", "address of the upstream to protect")
	of.Flags().StringVar(&envoy.Wasm, "wasm", "/etc/envoy/sluice.wasm", "path of the plugin where Envoy runs")
	relay := &rendering{run: render.Relay}
	beside := relay.command(c, "relay", "A relay beside Redis, through which limiters ask, for an Envoy of its own",
		"  sluice render relay --redis redis:6379 --redis-user sluice --allow spiffe://example.com/edge --out relay.yaml",
		"0.0.0.0:9000", "the password's alone", "the relay with Redis' password (default: REDIS_PASSWORD)")
	beside.Flags().StringSliceVar(&relay.Allow, "allow", nil, "who may ask: SPIFFE identities, spiffe://DOMAIN/PATH")
	command.AddCommand(of, beside, inKubernetes("istio"), inKubernetes("envoy-gateway"))
	return command
}

// command is one of the render commands, with the flags about Redis, and the file to write.
func (r *rendering) command(c *console.Console, use, short, example, listen, user, variable string) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(called *cobra.Command, _ []string) error {
			if called.Flags().Lookup("config") != nil {
				l, err := r.Limiter(c)
				if err != nil {
					return err
				}
				r.Plugin = l.JSON
			}
			return r.write(c)
		},
	}
	f := command.Flags()
	f.Var((*input.Addresses)(&r.Redis), "redis", "address of Redis, host:port; several: a primary with its "+
		"replicas, or with --redis-cluster some nodes")
	f.BoolVar(&r.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.BoolVar(&r.TLS, "redis-tls", false, "Redis speaks TLS")
	f.StringVar(&r.CA, "redis-ca", "/etc/ssl/certs/ca-certificates.crt",
		"file, where Envoy runs, with the authority of Redis' certificate")
	f.StringVar(&r.ServerName, "redis-server-name", "", "name in Redis' certificate (default: the host of --redis)")
	f.StringVar(&r.User, "redis-user", "", "user of Redis (default: "+user+")")
	f.StringVar(&r.PasswordEnv, "redis-password-env", "", "environment variable of "+variable)
	f.StringVar(&r.Listen, "listen", listen, "address to listen at")
	f.StringVar(&r.out, "out", "", "file to write (default: standard output)")
	console.Must(command.MarkFlagFilename("out", "yaml", "yml"))
	return command
}

// inKubernetes refuses a platform whose resources the chart makes.
func inKubernetes(platform string) *cobra.Command {
	return &cobra.Command{
		Use: platform, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return console.Usage("on Kubernetes the chart is the one source: helm template sluice deploy/chart "+
				"--set platform=%s --set-json config=\"$(cat plugin.json)\" ... (deploy/chart/README.md)", platform)
		},
	}
}

// ours is how every file begins that render has written.
const ours = `# Written by "sluice render`

// write runs what renders, and prints it or writes it into a file: one of ours or none, as the name of one's
// own Envoy file is quickly given by mistake.
func (r *rendering) write(c *console.Console) error {
	result, err := r.run(&r.Options)
	if err != nil {
		return console.Misuse(err)
	}
	if r.out != "" {
		before, err := os.ReadFile(c.Path(r.out))
		if err == nil && len(before) > 0 && !strings.HasPrefix(string(before), ours) {
			return console.Usage("%s is there and was not written by sluice render (want another name, or remove it)", r.out)
		}
		if err := c.Write(r.out, []byte(result.Text)); err != nil {
			return err
		}
		result.File, result.Text = r.out, ""
	}
	if c.JSON() {
		return c.Print(result)
	}
	for _, note := range result.Notes {
		c.Warn("note: %s\n", note)
	}
	if r.out == "" {
		_, err := io.WriteString(c.Out, result.Text)
		return err
	}
	c.Warn("wrote %s\n", r.out)
	return nil
}
