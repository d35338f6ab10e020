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

	"github.com/redis/go-redis/v9"
)

// The peer is redis_rate v10 (BSD-2-Clause), the usual GCRA of Go programs on
// Redis. Its script is taken out of the module as published, which the sum
// pins. https://github.com/go-redis/redis_rate
const (
	peerName   = "redis_rate v10"
	peerModule = "github.com/go-redis/redis_rate/v10@v10.0.1"
	peerSum    = "h1:calPxi7tVlxojKunJwQ72kwfozdy25RjA0bCj1h0MUo="
)

// redisRateScript returns the script behind redis_rate's Limiter.AllowN.
func redisRateScript(ctx context.Context) (string, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", peerModule)
	download.Dir = os.TempDir() // outside of this module, whose go.sum has nothing to do with it
	text, err := download.Output()
	var module struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(text, &module); jsonErr != nil || module.Sum != peerSum {
		return "", fmt.Errorf("the peer %s: sum %q (want %s): %s %w", peerModule, module.Sum, peerSum, module.Error,
			errors.Join(err, jsonErr))
	}
	source, err := os.ReadFile(filepath.Join(module.Dir, "lua.go"))
	if err != nil {
		return "", err
	}
	return scriptIn(string(source))
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
func redisRate(script string) *subject {
	admitted := func(reply *redis.Cmd) error {
		if values, _ := reply.Slice(); len(values) == 0 || values[0] != int64(1) {
			return fmt.Errorf("its reply is %v (want 1 first)", values)
		}
		return nil
	}
	return &subject{name: peerName, check: func(id string) []call {
		key := "rl:{redisrat|" + id + "}:gcra:1s" // as long as ours: it is the scripts that are compared
		return []call{evalsha(script, []string{key}, []string{fmt.Sprint(bigBurst), "1000", "1", "1"}, admitted)}
	}}
}

// incrby does as envoyproxy/ratelimit does on Redis: two commands, pipelined,
// and no script. https://github.com/envoyproxy/ratelimit
func incrby() *subject {
	return &subject{name: "INCRBY, EXPIRE: two commands, no script", check: func(id string) []call {
		key := "domain_key_" + id + "_1700000000"
		return []call{command("INCRBY", key, "1"), command("EXPIRE", key, "3600")}
	}}
}
