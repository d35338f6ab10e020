package main

import "testing"

func TestAuthority(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]string{
		"redis": "redis",
		"outbound|9000||sluice-relay.redis.svc.cluster.local": "sluice-relay.redis.svc.cluster.local",
		"grpcroute/default/sluice-relay/rule/0":               "grpcroute-default-sluice-relay-rule-0",
		"relay_2.example.com:9000":                            "relay_2.example.com-9000",
	} {
		if got := authority(cluster); got != want {
			t.Errorf("of %q: %q, want %q", cluster, got, want)
		}
	}
}
