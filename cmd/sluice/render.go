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
		Short: "Write complete files for Envoy, Istio or Envoy Gateway",
	}
	command.AddCommand(renderEnvoyCommand(c), renderIstioCommand(c), renderGatewayCommand(c), renderRelayCommand(c))
	return command
}

// command makes the command of one kind of files, with the flags that all have.
func (r *rendering) command(c *console.Console, name, short, example string) *cobra.Command {
	command := &cobra.Command{
		Use:     name,
		Short:   short,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return r.render(c) },
	}
	r.Source.Flag(command)
	r.redisFlags(command)
	return command
}

// redisFlags are those about Redis, and the file to write.
func (r *rendering) redisFlags(command *cobra.Command) {
	f := command.Flags()
	f.Var((*input.Addresses)(&r.Redis), "redis", "address of Redis, host:port")
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
	command := r.command(c, "envoy", "A configuration for Envoy without a control plane",
		"  sluice render envoy -c plugin.json --redis redis:6379 --upstream app:8080 --out sluice.yaml\n  envoy --mode "+
			"validate -c sluice.yaml")
	f := command.Flags()
	f.Lookup("redis").Usage += "; several: a primary with its replicas, or with --redis-cluster some nodes"
	f.BoolVar(&r.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.StringVar(&r.Listen, "listen", "0.0.0.0:10000", "address to listen at")
	f.StringVar(&r.Admin, "admin", "127.0.0.1:9901", "address of Envoy's admin interface")
	f.StringVar(&r.Upstream, "upstream", "upstream:8080", "address of the upstream to protect")
	f.StringVar(&r.Wasm, "wasm", "/etc/envoy/sluice.wasm", "path of the plugin where Envoy runs")
	return command
}

func renderIstioCommand(c *console.Console) *cobra.Command {
	r := &rendering{run: render.Istio}
	command := r.command(c, "istio", "A WasmPlugin and an EnvoyFilter for Istio",
		"  sluice render istio -c plugin.json --image oci://registry.example.com/sluice:v1 --redis redis.redis:6379 | "+
			"kubectl apply -f -")
	f := command.Flags()
	f.BoolVar(&r.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.StringVar(&r.Image, "image", "", "image of the plugin, oci://...")
	f.StringVar(&r.App, "app", "istio-ingressgateway", `label "app" of the pods that limit`)
	f.StringVarP(&r.Namespace, "namespace", "n", "",
		"namespace of the pods (default: istio-system, with --sidecar default)")
	f.BoolVar(&r.Sidecar, "sidecar", false, "limit requests to a workload, in its sidecar; needs --app")
	f.BoolVar(&r.StrictHTTP, "strict-http", false,
		"have these proxies refuse, for all their traffic, what could be read in two ways (docs/security.md)")
	f.BoolVar(&r.Bootstrap, "bootstrap", false,
		"add a ConfigMap with the labels of the metrics, which pods name by annotation (deploy/istio/README.md)")
	r.relayFlag(command)
	f.StringVar(&r.Target, "target", "",
		"with --relay, in place of --app: Gateway/NAME, or Service/NAME at its waypoint")
	console.Must(command.MarkFlagRequired("image"))
	command.MarkFlagsMutuallyExclusive("target", "app")
	command.MarkFlagsMutuallyExclusive("target", "sidecar")
	command.MarkFlagsMutuallyExclusive("relay", "strict-http")
	command.MarkFlagsMutuallyExclusive("relay", "bootstrap")
	command.PreRunE = func(called *cobra.Command, _ []string) error {
		switch {
		case r.Sidecar && !called.Flags().Changed("app"):
			return console.Usage("--sidecar needs --app, the workload's label \"app\"")
		case r.Target != "" && r.Relay == "":
			return console.Usage("--target needs --relay: the EnvoyFilters of the direct way select pods by --app")
		}
		return nil
	}
	return command
}

func renderGatewayCommand(c *console.Console) *cobra.Command {
	r := &rendering{run: render.EnvoyGateway}
	command := r.command(c, "envoy-gateway", "Policies and an EnvoyProxy for Envoy Gateway",
		"  sluice render envoy-gateway -c plugin.json --image registry.example.com/sluice:v1 --redis redis.redis:6379 | "+
			"kubectl apply -f -")
	f := command.Flags()
	f.StringVar(&r.Image, "image", "", "image of the plugin")
	f.StringVar(&r.Gateway, "gateway", "eg", "name of the Gateway")
	f.StringVar(&r.Listener, "listener", "http", "name of its listener")
	f.StringVarP(&r.Namespace, "namespace", "n", "", "namespace of the Gateway (default: default)")
	r.relayFlag(command)
	console.Must(command.MarkFlagRequired("image"))
	return command
}

// relayFlag is that of limiters which ask through a relay.
func (r *rendering) relayFlag(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&r.Relay, "relay", "", "ask through a relay, the Service NAME.NAMESPACE:PORT, in place of --redis")
	f.Lookup("relay").NoOptDefVal = render.DefaultRelay
}

func renderRelayCommand(c *console.Console) *cobra.Command {
	r := &rendering{run: render.Relay}
	command := &cobra.Command{
		Use:   "relay",
		Short: "A relay beside Redis, through which limiters ask",
		Example: "  sluice render relay --for istio --redis redis:6379 --redis-user sluice --image $ENVOY \\\n" +
			"    --allow cluster.local/ns/istio-system/sa/istio-ingressgateway | kubectl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return r.write(c) },
	}
	r.redisFlags(command)
	f := command.Flags()
	f.Lookup("redis").Usage += "; several: a primary with its replicas, or with --redis-cluster some nodes"
	f.Lookup("redis-user").Usage = "user of Redis (default: the password's alone)"
	password := f.Lookup("redis-password-env")
	password.Usage = "environment variable of the relay with Redis' password (--for envoy; default: REDIS_PASSWORD)"
	f.BoolVar(&r.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.StringVar(&r.For, "for", render.RelayPlain, "what is around it: envoy, kubernetes, istio or envoy-gateway")
	f.StringSliceVar(&r.Allow, "allow", nil,
		"who may ask: identities (envoy, istio), or namespaces of Gateways (envoy-gateway)")
	f.StringVar(&r.Image, "image", "", "image of Envoy 1.40 or later, by digest (in Kubernetes)")
	f.StringVar(&r.Listen, "listen", "0.0.0.0:9000", "address to listen at (--for envoy)")
	f.StringVarP(&r.Namespace, "namespace", "n", "", "namespace of the relay (default: redis)")
	return command
}

func (r *rendering) render(c *console.Console) error {
	l, err := r.Limiter(c)
	if err != nil {
		return err
	}
	r.Plugin = l.JSON
	return r.write(c)
}

// write runs what renders, and prints it or writes it into a file.
func (r *rendering) write(c *console.Console) error {
	result, err := r.run(&r.Options)
	if err != nil {
		return console.Usage("%w", err)
	}
	if r.out != "" {
		if err := r.save(c, result.YAML); err != nil {
			return err
		}
	}
	return r.print(c, result)
}

// ours is how every file begins that render has written.
const ours = `# Written by "sluice render`

// save writes the file, over one of ours or none: the name of one's own Envoy file is
// quickly given by mistake.
func (r *rendering) save(c *console.Console, text []byte) error {
	before, err := os.ReadFile(r.out)
	if err == nil && len(before) > 0 && !strings.HasPrefix(string(before), ours) {
		return console.Usage("%s is there and was not written by sluice render (want another name, or remove it)", r.out)
	}
	return c.Write(r.out, text)
}

func (r *rendering) print(c *console.Console, result render.Result) error {
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
