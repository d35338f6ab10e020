package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/render"
)

// rendered is the output of -o json.
type rendered struct {
	File  string   `json:"file,omitempty"` // written there, else Text has it
	Text  string   `json:"text,omitempty"`
	Notes []string `json:"notes"`
}

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
	command.AddCommand(renderEnvoyCommand(c), renderRelayCommand(c))
	command.AddCommand(inKubernetes("istio"), inKubernetes("envoy-gateway"))
	return command
}

// redisFlags are those about Redis, and the file to write.
func (r *rendering) redisFlags(command *cobra.Command) {
	f := command.Flags()
	f.Var((*input.Addresses)(&r.Redis), "redis", "address of Redis, host:port; several: a primary with its "+
		"replicas, or with --redis-cluster some nodes")
	f.BoolVar(&r.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.BoolVar(&r.TLS, "redis-tls", false, "Redis speaks TLS")
	f.StringVar(&r.CA, "redis-ca", "/etc/ssl/certs/ca-certificates.crt",
		"file, where Envoy runs, with the authority of Redis' certificate")
	f.StringVar(&r.ServerName, "redis-server-name", "", "name in Redis' certificate (default: the host of --redis)")
	f.StringVar(&r.User, "redis-user", "", "user of Redis (default: the configuration's)")
	f.StringVar(&r.PasswordEnv, "redis-password-env", "",
		"environment variable of Envoy with Redis' password (default: the configuration's)")
	f.StringVar(&r.out, "out", "", "file to write (default: standard output)")
	console.Must(command.MarkFlagFilename("out", "yaml", "yml"))
}

func renderEnvoyCommand(c *console.Console) *cobra.Command {
	r := &rendering{run: render.Envoy}
	command := &cobra.Command{
		Use:   "envoy",
		Short: "A configuration for Envoy without a control plane",
		Example: "  sluice render envoy -c plugin.json --redis redis:6379 --upstream app:8080 --out sluice.yaml\n" +
			"  envoy --mode validate -c sluice.yaml",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := r.Limiter(c)
			if err != nil {
				return err
			}
			r.Plugin = l.JSON
			return r.write(c)
		},
	}
	r.Source.Flag(command)
	r.redisFlags(command)
	f := command.Flags()
	f.StringVar(&r.Listen, "listen", "0.0.0.0:10000", "address to listen at")
	f.StringVar(&r.Admin, "admin", "127.0.0.1:9901", "address of Envoy's admin interface")
	f.StringVar(&r.Upstream, "upstream", "upstream:8080", "address of the upstream to protect")
	f.StringVar(&r.Wasm, "wasm", "/etc/envoy/sluice.wasm", "path of the plugin where Envoy runs")
	return command
}

func renderRelayCommand(c *console.Console) *cobra.Command {
	r := &rendering{run: render.Relay}
	command := &cobra.Command{
		Use:   "relay",
		Short: "A relay beside Redis, through which limiters ask, for an Envoy of its own",
		Example: "  sluice render relay --redis redis:6379 --redis-user sluice --allow spiffe://example.com/edge --out " +
			"relay.yaml",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return r.write(c) },
	}
	r.redisFlags(command)
	f := command.Flags()
	f.Lookup("redis-user").Usage = "user of Redis (default: the password's alone)"
	f.Lookup("redis-password-env").Usage = "environment variable of the relay with Redis' password (default: " +
		"REDIS_PASSWORD)"
	f.StringSliceVar(&r.Allow, "allow", nil, "who may ask: SPIFFE identities, spiffe://DOMAIN/PATH")
	f.StringVar(&r.Listen, "listen", "0.0.0.0:9000", "address to listen at")
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
		return console.Usage("%w", err)
	}
	if r.out != "" {
		before, err := os.ReadFile(c.Path(r.out))
		if err == nil && len(before) > 0 && !strings.HasPrefix(string(before), ours) {
			return console.Usage("%s is there and was not written by sluice render (want another name, or remove it)", r.out)
		}
		if err := c.Write(r.out, result.YAML); err != nil {
			return err
		}
	}
	if c.JSON() {
		text := rendered{File: r.out, Notes: append([]string{}, result.Notes...)}
		if r.out == "" {
			text.Text = string(result.YAML)
		}
		return c.Print(text)
	}
	for _, note := range result.Notes {
		c.Warn("note: %s\n", note)
	}
	if r.out == "" {
		_, err := c.Out.Write(result.YAML)
		return err
	}
	c.Warn("wrote %s\n", r.out)
	return nil
}
