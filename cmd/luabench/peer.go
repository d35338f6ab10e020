package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluiceproxy/sluice/redisresp"
)

// The peer is redis_rate v10 (BSD-2-Clause), the usual GCRA of Go programs on
// Redis. Its script is taken out of the module as published, which the sum
// pins. https://github.com/go-redis/redis_rate
const (
	peerModule = "github.com/go-redis/redis_rate/v10@v10.0.1"
	peerSum    = "h1:calPxi7tVlxojKunJwQ72kwfozdy25RjA0bCj1h0MUo="
)

// redisRateScript returns the script behind redis_rate's Limiter.AllowN.
func redisRateScript(ctx context.Context) (string, error) {
	dir, err := downloadPeer(ctx)
	if err != nil {
		return "", fmt.Errorf("the peer %s: %w", peerModule, err)
	}
	source, err := os.ReadFile(filepath.Join(dir, "lua.go"))
	if err != nil {
		return "", err
	}
	return scriptIn(string(source))
}

// downloadPeer returns the module's directory in Go's module cache.
func downloadPeer(ctx context.Context) (dir string, err error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", peerModule)
	cmd.Dir = os.TempDir() // outside of this module, whose go.sum has nothing to do with it
	text, runErr := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	switch err := json.Unmarshal(text, &module); {
	case err != nil:
		return "", errors.Join(runErr, err)
	case module.Error != "":
		return "", errors.New(module.Error)
	case module.Sum != peerSum:
		return "", fmt.Errorf("sum %s (want %s)", module.Sum, peerSum)
	}
	return module.Dir, runErr
}

// scriptIn returns the script that Go source assigns to allowN.
func scriptIn(source string) (string, error) {
	_, rest, begins := strings.Cut(source, "var allowN = redis.NewScript(`")
	script, _, ends := strings.Cut(rest, "`")
	if !begins || !ends {
		return "", errors.New("redis_rate: no script allowN in lua.go")
	}
	return script, nil
}

// redisRate calls the peer's script as its AllowN does, for 1000 a second.
func redisRate(script string) subject {
	return subject{
		name: peerName, scripts: []string{script},
		check: func(id string) []call {
			key := "rl:{redisrat|" + id + "}:gcra:1s" // as long as ours: it is the scripts that are compared
			return []call{evalsha(script, []string{key}, []string{fmt.Sprint(bigBurst), "1000", "1", "1"}, firstIs(1))}
		},
	}
}

// incrby is what envoyproxy/ratelimit does on Redis: two commands, pipelined,
// and no script. https://github.com/envoyproxy/ratelimit
func incrby() subject {
	return subject{
		name: "INCRBY, EXPIRE: two commands, no script",
		check: func(id string) []call {
			key := "domain_key_" + id + "_1700000000"
			return []call{
				{[]string{"INCRBY", key, "1"}, anything},
				{[]string{"EXPIRE", key, "3600"}, anything},
			}
		},
	}
}

// firstIs accepts a reply that is an array with this number first.
func firstIs(want int64) func(redisresp.Reply) error {
	return func(reply redisresp.Reply) error {
		it := reply.Iter()
		if !it.Next() || it.Reply().Int != want {
			return fmt.Errorf("the first of its reply is %d (want %d)", it.Reply().Int, want)
		}
		return nil
	}
}
