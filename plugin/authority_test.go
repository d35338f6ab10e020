package main

import (
	"strings"
	"testing"
)

func TestAuthority(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]string{
		"redis": "redis",
		"outbound|9000||sluice-relay.redis.svc.cluster.local": "sluice-relay.redis.svc.cluster.local",
		"grpcroute/default/sluice-relay/rule/0":               "grpcroute-default-sluice-relay-rule-0",
		"relay_2.example.com:9000":                            "relay_2.example.com-9000",
	} {
		if got := string(grpcService(cluster)); !strings.HasSuffix(got, string(appendField(nil, 2, want))) {
			t.Errorf("of %q: %q, want %q at its end", cluster, got, want)
		}
	}
}
