package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// The ports of a run on three machines, as three-machines.sh knows them.
var threePorts = place{
	listener: 25000, admin: 25001, upstream: 25002, redis: 25003, service: 25004, health: 25005, debug: 25006,
	timeout: 50 * time.Millisecond,
}

// The setups of such a run.
var threeSetups = []string{unlimited, sluice, pair}

// everywhere is the address of what another machine asks.
const everywhere = "0.0.0.0"

// writeThree writes what three-machines.sh starts, the service's program too.
func writeThree(ctx context.Context, root, dir, store string) error {
	files, err := threeFiles(root, store)
	if err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	_, err = buildPeer(ctx, root, dir)
	return err
}

// threeFiles are the configurations of Envoy and of the service, by their names. Redis, the service and
// the upstream are at one host, Envoy is at another one.
func threeFiles(root, store string) (map[string]string, error) {
	at := threePorts
	at.root, at.host = root, store
	files := map[string]string{
		"upstream.yaml": answering(place{listener: at.upstream, admin: at.upstream + 100}, everywhere),
	}
	for _, s := range choose(func(s *setup) bool { return slices.Contains(threeSetups, s.id) }) {
		open := *s
		open.edit = func(c *envoyconf.Config, at place) {
			s.edit(c, at)
			c.Set(envoyconf.Listener+"/address/socket_address/address", everywhere)
		}
		text, err := open.config(at)
		if err != nil {
			return nil, err
		}
		// What Envoy loads lies in the folder of its configuration.
		files[s.id+".yaml"] = strings.ReplaceAll(text, filepath.Join(root, "build")+"/", "")
		if s.peer != nil {
			env := strings.Join(s.peer.env("limits", at), "\n") + "\n"
			files["service.env"] = strings.Replace(env, "GRPC_HOST="+loopback, "GRPC_HOST="+everywhere, 1)
			files["limits/config/bench.yaml"] = s.peer.limits()
		}
	}
	return files, nil
}
