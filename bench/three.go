package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The ports of a run on three machines, as three-machines.sh knows them.
var threePorts = place{
	listener: 25000, admin: 25001, upstream: 25002, redis: 25003, service: 25004, health: 25005, debug: 25006,
	timeout: 50 * time.Millisecond,
}

// The setups of such a run.
var threeSetups = []string{unlimited, sluice, pair}

// writeThree writes what three-machines.sh starts, the service's program too.
func writeThree(ctx context.Context, root, dir, store string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
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
	at.root = root
	upstream := answering(place{listener: at.upstream, admin: at.upstream + 100})
	files := map[string]string{"upstream.yaml": moved(upstream, at, "0.0.0.0")}
	for _, s := range setups() {
		if !slices.Contains(threeSetups, s.id) {
			continue
		}
		c, err := base(at)
		if err != nil {
			return nil, err
		}
		s.edit(c, at)
		text, err := c.YAML()
		if err != nil {
			return nil, err
		}
		// What Envoy loads lies in the folder of its configuration.
		files[s.id+".yaml"] = moved(strings.ReplaceAll(string(text), filepath.Join(root, "build")+"/", ""), at, store)
		if s.peer != nil {
			env := strings.Join(s.peer.env("limits", at), "\n") + "\n"
			files["service.env"] = strings.Replace(env, "GRPC_HOST=127.0.0.1", "GRPC_HOST=0.0.0.0", 1)
			files["limits/config/bench.yaml"] = s.peer.limits()
		}
	}
	return files, nil
}

var localAddress = regexp.MustCompile(`address: "?127\.0\.0\.1"?(,?\s+port_value: )(\d+)`)

// moved is a configuration whose Redis, service and upstream are at a host, and whose listener is
// everywhere.
func moved(text string, at place, store string) string {
	return localAddress.ReplaceAllStringFunc(text, func(address string) string {
		said := localAddress.FindStringSubmatch(address)
		host := "127.0.0.1"
		switch said[2] {
		case strconv.Itoa(at.listener):
			host = "0.0.0.0"
		case strconv.Itoa(at.upstream), strconv.Itoa(at.redis), strconv.Itoa(at.service):
			host = store
		}
		return "address: " + host + said[1] + said[2]
	})
}
