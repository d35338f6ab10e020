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
	workload, namespace := "gateway", "istio-system"
	if o.Sidecar {
		workload, namespace = "sidecar", "default"
		p.warnOfAddresses()
	}
	r, err := chart(cmp.Or(o.Namespace, namespace), values{
		"platform": "istio", "through": "redis", "image": o.Image, "config": p.chartConfig(), "redis": o.redis(p, redis),
		"istio": values{
			"workload": workload, "app": o.App, "accessLog": true, "strictHTTP": o.StrictHTTP, "bootstrap": o.Bootstrap,
		},
	})
	if err != nil {
		return Result{}, err
	}
	p.connect(meshCluster, !o.Cluster)
	limiter := r.one("WasmPlugin", "sluice")
	limiter.Set(p.values(limiter), "spec", "pluginConfig")
	o.encrypt(r.one("EnvoyFilter", "sluice-redis"), redis, "spec", "configPatches")
	return r.finish("istio", p)
}

// checkImage holds that Istio can tell where the image is.
func (o *Options) checkImage() error {
	if !strings.Contains(o.Image, "://") {
		return fmt.Errorf("--image: %q has no scheme (want oci://%s)", o.Image, o.Image)
	}
	return nil
}

// chartConfig has of the configuration what other parts of the chart depend on.
func (p *plugin) chartConfig() values { return values{"hash_secret_env": p.hashSecretEnv} }

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
	r, err := chart(cmp.Or(o.Namespace, "default"), values{
		"platform": "envoy-gateway", "through": "redis", "image": o.Image,
		"config": p.chartConfig(), "redis": o.redis(p, redis),
		"gateway": values{"name": o.Gateway, "listeners": []any{o.Listener}},
	})
	if err != nil {
		return Result{}, err
	}
	p.connect(meshCluster, true)
	limiter := r.one("EnvoyExtensionPolicy", "sluice")
	limiter.Set(p.values(limiter), "spec", "wasm", "0", "config")
	o.encrypt(r.one("EnvoyPatchPolicy", "sluice-redis"), redis, "spec", "jsonPatches")
	return r.finish("envoy-gateway", p)
}
