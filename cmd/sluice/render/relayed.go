package render

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// DefaultRelay is the Service that deploy/relay/kubernetes makes.
const DefaultRelay = "sluice-relay.redis:9000"

// service is the relay's Service in Kubernetes.
type service struct {
	name, namespace string
	port            int
}

// values are the chart's.
func (s service) values() values {
	return values{"service": s.name, "namespace": s.namespace, "port": s.port}
}

// parseService reads "NAME.NAMESPACE:PORT".
func parseService(flag, value string) (service, error) {
	host, portText, err := net.SplitHostPort(value)
	name, namespace, dotted := strings.Cut(strings.TrimSuffix(host, ".svc.cluster.local"), ".")
	port, convErr := strconv.Atoi(portText)
	label := func(s string) bool { return dnsLabel.MatchString(s) }
	switch {
	case err != nil, convErr != nil, !dotted, !label(name), !label(namespace), port < 1, port > 65535:
		return service{}, fmt.Errorf("%s: %q is not a Service (want NAME.NAMESPACE:PORT, such as %s)",
			flag, value, DefaultRelay)
	}
	return service{name, namespace, port}, nil
}

// dnsLabel matches Kubernetes' names of Services and namespaces (RFC 1123).
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// throughRelay reads what the files of limiters that ask through a relay are made of.
func throughRelay(o *Options) (*plugin, service, error) {
	if len(o.Redis) > 0 || o.TLS || o.Cluster || o.User != "" || o.PasswordEnv != "" {
		return nil, service{}, errors.New(
			"with --relay Redis is the relay's affair: give --redis and the like to \"sluice render relay\"",
		)
	}
	relay, err := parseService("--relay", o.Relay)
	if err != nil {
		return nil, service{}, err
	}
	p, err := newPlugin(o)
	if err != nil {
		return nil, service{}, err
	}
	if p.user != "" || p.passwordEnv != "" {
		p.more = append(p.more, "redis: the user and the password are left out: the relay logs in to Redis")
	}
	p.user, p.passwordEnv, p.secret = "", "", false
	return p, relay, nil
}

// target is the target of a policy, "KIND/NAME".
type target struct{ group, kind, name string }

// targets are the kinds that policies may be for, and their API groups.
var targets = map[string]string{"Gateway": "gateway.networking.k8s.io", "Service": ""}

// target reads the target of a policy of Istio; none: the pods of App.
func (o *Options) target() (target, error) {
	if o.Target == "" {
		return target{}, o.checkImage()
	}
	kind, name, _ := strings.Cut(o.Target, "/")
	group, known := targets[kind]
	if !known || !dnsLabel.MatchString(name) {
		return target{}, fmt.Errorf("--target: %q is neither Gateway/NAME nor Service/NAME", o.Target)
	}
	return target{group, kind, name}, o.checkImage()
}

// aim has the limiter see the target's requests, in place of those of the pods of an app.
func (t target) aim(limiter *yamltree.Tree) {
	spec := limiter.At("spec")
	if t == (target{}) {
		return
	}
	yamltree.Drop(spec, "selector")
	yamltree.PutBefore(spec, "wasm", "targetRefs",
		limiter.Fragment(fmt.Sprintf("[{group: %q, kind: %s, name: %s}]", t.group, t.kind, t.name)))
}

// IstioRelayed renders the limiter of proxies that ask through a relay.
func IstioRelayed(o *Options) (Result, error) {
	p, relay, err := throughRelay(o)
	if err != nil {
		return Result{}, err
	}
	chosen, err := o.target()
	if err != nil {
		return Result{}, err
	}
	workload, namespace := "gateway", "istio-system"
	switch {
	case o.Sidecar:
		workload, namespace = "sidecar", "default"
		p.warnOfAddresses()
	case chosen.kind == "Service":
		namespace = "default"
	}
	r, err := chart(cmp.Or(o.Namespace, namespace), values{
		"platform": "istio", "through": "relay", "image": o.Image, "config": p.chartConfig(), "relay": relay.values(),
		"istio": values{"workload": workload, "app": o.App},
	})
	if err != nil {
		return Result{}, err
	}
	limiter := r.one("TrafficExtension", "sluice")
	p.connect(fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", relay.port, relay.name, relay.namespace), false)
	limiter.Set(p.values(limiter), "spec", "wasm", "pluginConfig")
	chosen.aim(limiter)
	if chosen.kind == "Service" {
		p.more = append(p.more, fmt.Sprintf(
			"a waypoint has the relay's cluster only if the mesh's configuration names it: extensionProviders: "+
				"[{name: sluice-relay, envoyExtAuthzGrpc: {service: %[1]s/%[2]s.%[1]s.svc.cluster.local, port: %[3]d}}]",
			relay.namespace, relay.name, relay.port,
		))
	}
	return r.finish("istio --relay", p)
}

// EnvoyGatewayRelayed renders the limiter of a Gateway that asks through a relay, and the route
// that leads there.
func EnvoyGatewayRelayed(o *Options) (Result, error) {
	p, relay, err := throughRelay(o)
	if err != nil {
		return Result{}, err
	}
	namespace := cmp.Or(o.Namespace, "default")
	r, err := chart(namespace, values{
		"platform": "envoy-gateway", "through": "relay", "image": o.Image, "config": p.chartConfig(), "relay": relay.values(),
		"gateway": values{"name": o.Gateway, "envoyProxy": false},
	})
	if err != nil {
		return Result{}, err
	}
	p.connect("grpcroute/"+namespace+"/sluice-relay/rule/0", false)
	limiter := r.one("EnvoyExtensionPolicy", "sluice")
	limiter.Set(p.values(limiter), "spec", "wasm", "0", "config")
	return r.finish("envoy-gateway --relay", p)
}
