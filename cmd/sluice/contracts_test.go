package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestImportOfMany sets a hundred thousand contracts, pipelined: some hundred round trips.
func TestImportOfMany(t *testing.T) {
	t.Parallel()
	server, dir := redistest.Start(t), t.TempDir()
	var file bytes.Buffer
	file.WriteString("rule,values,setting,for\n")
	const many = 100_000
	for i := range many {
		fmt.Fprintf(&file, "per-key,customer-%d|team,limits:per-key=%d/%d,\n", i, 10+i%1000, 20+i%1000)
	}
	name := filepath.Join(dir, "many.csv")
	testenv.OK(t, os.WriteFile(name, file.Bytes(), 0o600))
	plugin := write(t, "plugin.json", `{"redis": {"cluster": "redis"}, "rules": [{"name": "per-key", "overrides": true,
		"key": [{"header": "x-api-key"}, {"header": "x-team"}],
		"limits": [{"algorithm": "gcra", "limit": 10, "window": "1m"}]}]}`)
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{"import", name}, "100000 added, 0 changed, 0 removed, 0 the same\n"},
		{[]string{"diff", name, "--prune", "--step", "10000"}, "0 added, 0 changed, 0 removed, 100000 the same\n"},
	} {
		r := execute(t, "", append([]string{"override", "-c", plugin, "--redis", server.Addr}, c.args...)...)
		testenv.Same(t, c.args[0]+": exit code", r.code, console.Done)
		testenv.Same(t, c.args[0], r.out, c.out)
	}
	client := server.Client()
	testenv.Same(t, "keys", client.DBSize(context.Background()).Val(), many)
	testenv.Same(t, "the last one", client.Get(context.Background(), "rl:{per-key|customer-99999|team}:override").Val(),
		"limits:per-key=1009/1019")
}
