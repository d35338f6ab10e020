package render

import (
	"cmp"
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// meshCluster is the cluster of Redis in the files for meshes.
const meshCluster = "sluice-redis"

// mesh is how the limiters of a mesh ask: Redis itself, or a relay.
type mesh struct {
	*Options
	plugin *plugin
	redis  address
	relay  service // in place of redis
}

// newMesh reads the configuration and the address of Redis or of the relay, which is needed: the files
// are made to reach it.
func newMesh(o *Options) (m *mesh, err error) {
	m = &mesh{Options: o}
	if o.Relay != "" {
		m.plugin, m.relay, err = throughRelay(o)
		return m, err
	}
	if m.plugin, err = newPlugin(o); err != nil {
		return nil, err
	}
	if len(o.Redis) != 1 {
		return nil, errors.New("one --redis host:port is needed (for a Redis Cluster that of any node, or of a service of " +
			"all)")
	}
	m.redis, err = parseAddress("--redis", o.Redis[0])
	return m, err
}

// chart renders the chart with the values of a platform.
func (m *mesh) chart(namespace string, set values) (*resources, error) {
	// Other parts of the chart depend on this field of the configuration.
	merge(set, values{"image": m.Image, "config": values{"hash_secret_env": m.plugin.hashSecretEnv}})
	if m.Relay != "" {
		merge(set, values{"through": "relay", "relay": m.relay.values()})
	} else {
		merge(set, values{"through": "redis", "redis": m.Options.redis(m.plugin, m.redis)})
	}
	return chart(namespace, set)
}

// finish writes the configuration into the limiter, the resource of a kind, and then all resources.
func (m *mesh) finish(r *resources, command, cluster, kind string, path ...string) (Result, error) {
	m.plugin.connect(cluster, m.Relay == "" && !m.Cluster)
	limiter := r.one(kind, "sluice")
	limiter.Set(m.plugin.values(limiter), path...)
	if m.Relay != "" {
		command += " --relay"
	}
	return r.finish(command, m.plugin)
}

// Istio renders the resources for a gateway, a sidecar or a waypoint.
func Istio(o *Options) (Result, error) {
	m, err := newMesh(o)
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
		m.plugin.warnOfAddresses()
	case chosen.kind == "Service":
		namespace = "default"
	}
	r, err := m.chart(cmp.Or(o.Namespace, namespace), values{"platform": "istio", "istio": values{
		"workload": workload, "app": o.App, "accessLog": o.Relay == "", "strictHTTP": o.StrictHTTP, "bootstrap": o.Bootstrap,
	}})
	if err != nil {
		return Result{}, err
	}
	if o.Relay != "" {
		chosen.aim(r.one("TrafficExtension", "sluice"), m)
		return m.finish(r, "istio", m.relay.outbound(), "TrafficExtension", "spec", "wasm", "pluginConfig")
	}
	o.encrypt(r.one("EnvoyFilter", "sluice-redis"), m.redis, "spec", "configPatches")
	return m.finish(r, "istio", meshCluster, "WasmPlugin", "spec", "pluginConfig")
}

// redis are the chart's values about Redis, but for TLS.
func (o *Options) redis(p *plugin, nodes ...address) values {
	var list []any
	for _, a := range nodes {
		list = append(list, values{"host": a.host, "port": a.port})
	}
	return values{"nodes": list, "cluster": o.Cluster, "username": p.user, "passwordEnv": p.passwordEnv}
}

// encrypt has the cluster that leads to Redis speak TLS: the one of the last patch of a resource.
func (o *Options) encrypt(t *yamltree.Tree, redis address, patches ...string) {
	list := t.At(patches...)
	if !o.TLS || t.Err != nil || len(list.Content) == 0 {
		return
	}
	last := list.Content[len(list.Content)-1]
	for _, key := range []string{"patch", "operation"} {
		if cluster := yamltree.Get(last, key, "value"); cluster != nil {
			yamltree.PutBefore(cluster, "load_assignment", "transport_socket", tlsOf(t, o, redis))
		}
	}
}

// clearComments drops what the shipped file says about a key.
func clearComments(object *yaml.Node, key string) {
	if shipped, _ := yamltree.Field(object, key); shipped != nil {
		shipped.HeadComment = ""
	}
}

// EnvoyGateway renders the resources for a Gateway and, through a relay, the route that leads there.
func EnvoyGateway(o *Options) (Result, error) {
	m, err := newMesh(o)
	if err != nil {
		return Result{}, err
	}
	if o.Cluster {
		return Result{}, errors.New("a Redis Cluster needs an internal listener that Envoy Gateway's files lack " +
			"(deploy/envoy-gateway/README.md says what to add)")
	}
	namespace, cluster := cmp.Or(o.Namespace, "default"), meshCluster
	r, err := m.chart(namespace, values{"platform": "envoy-gateway", "gateway": values{
		"name": o.Gateway, "listeners": []any{o.Listener}, "envoyProxy": o.Relay == "",
	}})
	if err != nil {
		return Result{}, err
	}
	if o.Relay != "" {
		cluster = "grpcroute/" + namespace + "/sluice-relay/rule/0"
	} else {
		o.encrypt(r.one("EnvoyPatchPolicy", "sluice-redis"), m.redis, "spec", "jsonPatches")
	}
	return m.finish(r, "envoy-gateway", cluster, "EnvoyExtensionPolicy", "spec", "wasm", "0", "config")
}
