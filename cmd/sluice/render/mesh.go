package render

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// meshCluster is the cluster of Redis in the files for meshes.
const meshCluster = "sluice-redis"

// mesh makes the resources of a directory of deploy/, with values in them. edit changes that
// directory's kustomization.yaml before it is used.
func mesh(o *Options, dir string, values map[string]string, edit func(*kustomization)) (*builder, error) {
	b := &builder{values: values, edit: func(at string, k *kustomization) {
		if at != dir {
			return
		}
		k.Namespace = cmp.Or(o.Namespace, k.Namespace)
		edit(k)
	}}
	return b, b.build(dir)
}

// finish drops resources for local use, which kustomize does not apply, and writes the
// rest.
func (b *builder) finish(command, dir string, p *plugin) (Result, error) {
	var applied []*yamltree.Tree
	for _, r := range b.resources {
		if local := r.Find("metadata", "annotations", "config.kubernetes.io/local-config"); local == nil ||
			local.Value != "true" {
			applied = append(applied, r)
		}
	}
	for _, r := range applied {
		r.Root.Style = 0
		r.At("metadata").Style = 0
	}
	if len(applied) > 0 {
		about := fmt.Sprintf("# Written by %q, from deploy/%s.", "sluice render "+command, dir)
		applied[0].About = strings.TrimSpace(about + "\n" + applied[0].About)
	}
	out, err := yamltree.Write(applied...)
	return Result{YAML: out, Notes: p.notes()}, err
}

// meshPlugin reads the configuration and the address of Redis, which is needed:
// the files are made to reach it.
func meshPlugin(o *Options) (*plugin, address, error) {
	p, err := newPlugin(o)
	if err != nil {
		return nil, address{}, err
	}
	if len(o.Redis) != 1 {
		return nil, address{}, errors.New("one --redis host:port is needed (for a Redis Cluster that of any node, or of a " +
			"service of all)")
	}
	redis, err := parseAddress("--redis", o.Redis[0])
	if err != nil {
		return nil, address{}, err
	}
	return p, redis, nil
}

// Istio renders the resources for a gateway, or a sidecar.
func Istio(o *Options) (Result, error) {
	p, redis, err := meshPlugin(o)
	if err != nil {
		return Result{}, err
	}
	if err := o.checkImage(); err != nil {
		return Result{}, err
	}
	dir := "istio/gateway"
	if o.Sidecar {
		dir = "istio/sidecar"
		p.warnOfAddresses()
	}
	values := map[string]string{
		"image": o.Image, "app": o.App, "redis-host": redis.host, "redis-port": fmt.Sprint(redis.port),
	}
	b, err := mesh(o, dir, values, o.istioParts)
	if err != nil {
		return Result{}, err
	}
	p.connect(meshCluster, !o.Cluster)
	limiter := b.one("WasmPlugin", "sluice")
	limiter.Set(p.values(limiter), "spec", "pluginConfig")
	variable := limiter.Fragment("{env: [{name: '" + p.passwordEnv + "', valueFrom: HOST}]}")
	setOrDrop(limiter.At("spec"), "vmConfig", p.passwordEnv != "" && !o.Cluster, variable)
	filter := b.one("EnvoyFilter", "sluice-redis")
	istioRedis(filter, o, p, redis)
	return b.finish("istio", dir, p)
}

// checkImage holds that Istio can tell where the image is.
func (o *Options) checkImage() error {
	if !strings.Contains(o.Image, "://") {
		return fmt.Errorf("--image: %q has no scheme (want oci://%s)", o.Image, o.Image)
	}
	return nil
}

// istioParts adds the directories that options ask for.
func (o *Options) istioParts(k *kustomization) {
	if o.Cluster {
		k.Components = append(k.Components, "../redis-cluster")
	}
	if o.StrictHTTP {
		k.Resources = append(k.Resources, "../http")
	}
	if o.Bootstrap {
		k.Resources = append(k.Resources, "../bootstrap")
	}
}

// istioRedis sets TLS and credentials of the cluster that leads to Redis: the
// last one that the EnvoyFilter adds.
func istioRedis(t *yamltree.Tree, o *Options, p *plugin, redis address) {
	patches := t.At("spec", "configPatches")
	if t.Err != nil || len(patches.Content) == 0 {
		return
	}
	cluster := yamltree.Child(yamltree.Child(patches.Content[len(patches.Content)-1], "patch"), "value")
	const socket, options = "transport_socket", "typed_extension_protocol_options"
	if o.Cluster {
		yamltree.Drop(cluster, socket) // the shipped one has both
		yamltree.Drop(cluster, options)
		if p.passwordEnv != "" {
			yamltree.PutBefore(cluster, "load_assignment", options, proxyAuth(t, p))
		}
	}
	if o.TLS {
		yamltree.PutBefore(cluster, "load_assignment", socket, tlsOf(t, o, redis))
	}
}

// setOrDrop sets a key of an object, or takes the shipped one away, and what the
// shipped file says about it.
func setOrDrop(object *yaml.Node, key string, wanted bool, value *yaml.Node) {
	clearComments(object, key)
	if wanted {
		yamltree.Put(object, key, value)
	} else {
		yamltree.Drop(object, key)
	}
}

// clearComments drops what the shipped file says about a key.
func clearComments(object *yaml.Node, key string) {
	if shipped, _ := yamltree.Field(object, key); shipped != nil {
		shipped.HeadComment = ""
	}
}

// EnvoyGateway renders the resources for a Gateway.
func EnvoyGateway(o *Options) (Result, error) {
	p, redis, err := meshPlugin(o)
	if err != nil {
		return Result{}, err
	}
	if o.Cluster {
		return Result{}, errors.New("a Redis Cluster needs an internal listener that Envoy Gateway's files lack " +
			"(deploy/envoy-gateway/README.md says what to add)")
	}
	const dir = "envoy-gateway"
	values := map[string]string{
		"image": o.Image, "gateway": o.Gateway, "listener": o.Listener,
		"redis-host": redis.host, "redis-port": fmt.Sprint(redis.port),
	}
	b, err := mesh(o, dir, values, func(*kustomization) {})
	if err != nil {
		return Result{}, err
	}
	p.connect(meshCluster, true)
	if err := b.gatewayLimiter(p); err != nil {
		return Result{}, err
	}
	cluster := b.one("EnvoyPatchPolicy", "sluice-redis")
	if o.TLS {
		socket := tlsOf(cluster, o, redis)
		yamltree.PutBefore(cluster.At("spec", "jsonPatches", "0", "operation", "value"), "load_assignment",
			"transport_socket", socket)
	}
	return b.finish("envoy-gateway", dir, p)
}

// gatewayLimiter sets the plugin's configuration, and the variable with Redis'
// password in the plugin's VM and in Envoy's pods.
func (b *builder) gatewayLimiter(p *plugin) error {
	limiter := b.one("EnvoyExtensionPolicy", "sluice")
	limiter.Set(p.values(limiter), "spec", "wasm", "0", "config")
	variable := limiter.Fragment("{hostKeys: ['" + p.passwordEnv + "']}")
	setOrDrop(limiter.At("spec", "wasm", "0"), "env", p.passwordEnv != "", variable)

	proxy := b.one("EnvoyProxy", "sluice")
	container := []string{"spec", "provider", "kubernetes", "envoyDeployment", "container"}
	if p.passwordEnv == "" {
		setOrDrop(proxy.At(container...), "env", false, nil)
	} else {
		proxy.Set(text(p.passwordEnv), below(container, "env", "0", "name")...)
	}
	return proxy.Err
}
