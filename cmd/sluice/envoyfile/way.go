package envoyfile

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Way is how a limiter reaches Redis.
type Way struct {
	Cluster      string // whose endpoints are Redis, or relays
	Relay        bool
	RedisCluster bool
	TLS          bool
}

// WayTo follows a limiter's cluster to Redis, through a redis_proxy of the same Envoy too.
func WayTo(found *find.Found, name string) Way {
	s := look(found)
	cluster := s.clusters[name]
	way := Way{Cluster: name, Relay: cluster != nil && !pools(cluster)}
	for _, endpoint := range yamltree.Objects(yamltree.Get(cluster, "load_assignment")) {
		listener := yamltree.Text(endpoint, "envoy_internal_address", "server_listener_name")
		if next := s.behind(listener); next != "" {
			way.Cluster, cluster = next, s.clusters[next]
		}
	}
	way.RedisCluster = yamltree.Text(cluster, "cluster_type", "name") == "envoy.clusters.redis"
	way.TLS = strings.HasSuffix(typeOf(yamltree.Get(cluster, "transport_socket", "typed_config")), "UpstreamTlsContext")
	return way
}

// pools reports whether a cluster's bytes go out on plain TCP connections.
func pools(cluster *yaml.Node) bool {
	return strings.HasSuffix(typeOf(yamltree.Get(cluster, "upstream_config", "typed_config")), "TcpConnectionPoolProto")
}

// behind is the cluster of the redis_proxy in a listener; "" if there is none.
func (s *surroundings) behind(listener string) string {
	for i := range s.documents {
		for _, n := range yamltree.Objects(s.documents[i].Root) {
			if listener == "" || yamltree.Text(n, "name") != listener {
				continue
			}
			for _, proxy := range yamltree.Objects(n) {
				if cluster := yamltree.Text(proxy, "prefix_routes", "catch_all_route", "cluster"); cluster != "" {
					return cluster
				}
			}
		}
	}
	return ""
}
