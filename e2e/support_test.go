package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// varying matches the parts that differ from run to run: numbers, times and the width of columns.
var varying = regexp.MustCompile(`\d+(h\d+m\d+s|m\d+s|h\d+m|[hms]\b| ms\b)?`)

func steady(s string) string {
	return regexp.MustCompile(` +`).ReplaceAllString(varying.ReplaceAllString(s, "#"), " ")
}

// TestSupportPage brings a customer to a 429, which the commands of docs/support.md, run by one shell, explain and
// then take away: with a password, and on a Redis Cluster, whichever node is asked first.
func TestSupportPage(t *testing.T) {
	t.Parallel()
	const page = "docs/support.md"
	config, commands, texts := blocks(t, page, "", "json")[0], blocks(t, page, "", "sh"), blocks(t, page, "", "text")
	testenv.Within(t, "the number of commands of "+page, len(commands), 5, 100)
	// The first text is the answer, the second what the access log has.
	if len(texts) != 2+len(commands) {
		t.Fatalf("%s has %d texts, want an output for each of %d commands and two more", page, len(texts), len(commands))
	}
	_, answer, _ := strings.Cut(texts[0], "\n\n")
	answer = strings.NewReplacer("\n ", "", "\n", "").Replace(answer)
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "plugin.json"), []byte(config), 0o600))
	// The Envoy of the test has the password in its configuration, not in its environment.
	plugin := func(more string) string {
		return strings.Replace(config, `"password_env": "REDIS_PASSWORD"`,
			`"timeout": "10s"`+more+`}, "deny_cache": {"size": 0`, 1)
	}
	server, cluster := redistest.Start(t, "--requirepass", password), redistest.StartCluster(t, 3)
	for name, tc := range map[string]struct {
		plugin string
		opts   envoytest.Options
		setup  string // of the shell, with the host and the port of a Redis
		env    []string
	}{
		"one Redis, with a password": {
			plugin: plugin(`, "password": "` + password + `"`), opts: envoytest.Options{Redis: []string{server.Addr}},
			setup: "REDIS='--redis %[1]s:%[2]s'\nR='redis-cli -h %[1]s -p %[2]s'\n",
			env:   []string{"REDIS_PASSWORD=" + password, "REDISCLI_AUTH=" + password},
		},
		"Redis Cluster": {
			plugin: plugin(""), opts: envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster},
			setup: "REDIS='--redis %[1]s:%[2]s --redis-cluster'\nR='redis-cli -c -h %[1]s -p %[2]s'\n",
			env:   []string{"REDIS_PASSWORD="},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, tc.plugin, tc.opts)
			for _, addr := range tc.opts.Redis {
				var last reply
				testenv.Wait(t, 3*patience, func() error {
					last = get(t, s.URL+"/api/orders", "x-api-key: alice")
					if last.status != http.StatusTooManyRequests || last.header.Get("X-Ratelimit-Limit") != "100" {
						return fmt.Errorf("status %d with %v, want a 429 by the daily limit", last.status, last.header)
					}
					return nil
				})
				testenv.Same(t, "the answer", steady(last.body), steady(answer))
				time.Sleep(3 * time.Second) // until the bucket is full again, of which the page says so
				host, port, _ := strings.Cut(addr, ":")
				const separator = "== end of a block"
				script := "set -eu\n" + fmt.Sprintf(tc.setup, host, port)
				for _, block := range commands {
					script += block + "echo '" + separator + "'\n"
				}
				shell := exec.Command("bash", "-c", script)
				shell.Dir = dir
				path := filepath.Dir(sluice(t)) + ":" + filepath.Dir(testenv.Tool(t, "redis-cli")) + ":" + os.Getenv("PATH")
				shell.Env = append(append(os.Environ(), tc.env...), "PATH="+path)
				out, err := shell.CombinedOutput()
				if err != nil {
					t.Fatalf("%v:\n%s", err, out)
				}
				for i, got := range strings.Split(strings.TrimSuffix(string(out), separator+"\n"), separator+"\n") {
					if got, want := steady(got), steady(texts[2+i]); got != want {
						t.Errorf("%s prints\n%s, the page has\n%s", commands[i], got, want)
					}
				}
			}
		})
	}
}
