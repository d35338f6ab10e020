package render

import (
	"errors"
	"fmt"
	"regexp"
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

// outbound is the name of its cluster in Istio.
func (s service) outbound() string {
	return fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", s.port, s.name, s.namespace)
}

// parseService reads "NAME.NAMESPACE:PORT".
func parseService(flag, value string) (service, error) {
	a, err := parseAddress(flag, value)
	name, namespace, _ := strings.Cut(strings.TrimSuffix(a.host, ".svc.cluster.local"), ".")
	if err != nil || !dnsLabel.MatchString(name) || !dnsLabel.MatchString(namespace) {
		return service{}, fmt.Errorf("%s: %q is not a Service (want NAME.NAMESPACE:PORT, such as %s)",
			flag, value, DefaultRelay)
	}
	return service{name, namespace, a.port}, nil
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

// target reads the target of a policy of Istio; none: the pods of App. It holds that Istio can tell
// where the image is, too.
func (o *Options) target() (t target, err error) {
	if o.Target != "" {
		kind, name, _ := strings.Cut(o.Target, "/")
		group, known := targets[kind]
		if !known || !dnsLabel.MatchString(name) {
			return t, fmt.Errorf("--target: %q is neither Gateway/NAME nor Service/NAME", o.Target)
		}
		t = target{group, kind, name}
	}
	if !strings.Contains(o.Image, "://") {
		return t, fmt.Errorf("--image: %q has no scheme (want oci://%s)", o.Image, o.Image)
	}
	return t, nil
}

// aim has the limiter see the target's requests, in place of those of the pods of an app.
func (t target) aim(limiter *yamltree.Tree, m *mesh) {
	if t == (target{}) {
		return
	}
	spec := limiter.At("spec")
	yamltree.Drop(spec, "selector")
	yamltree.PutBefore(spec, "wasm", "targetRefs",
		limiter.Fragment(fmt.Sprintf("[{group: %q, kind: %s, name: %s}]", t.group, t.kind, t.name)))
	if t.kind == "Service" {
		m.plugin.more = append(m.plugin.more, fmt.Sprintf(
			"a waypoint has the relay's cluster only if the mesh's configuration names it: extensionProviders: "+
				"[{name: sluice-relay, envoyExtAuthzGrpc: {service: %[1]s/%[2]s.%[1]s.svc.cluster.local, port: %[3]d}}]",
			m.relay.namespace, m.relay.name, m.relay.port,
		))
	}
}
