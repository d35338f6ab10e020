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

// supportPage is docs/support.md.
type supportPage struct {
	config   string
	answer   string   // the problem details of a 429
	commands []string // blocks that a shell runs
	outputs  []string // what they print
}

var fenced = regexp.MustCompile("(?ms)^```([a-z ]+)$\n(.*?)^```$")

// varying matches the parts that differ from run to run: numbers, times and the width of columns.
var varying = regexp.MustCompile(`\d+(h\d+m\d+s|m\d+s|h\d+m|[hms]\b| ms\b)?`)

func steady(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(varying.ReplaceAllString(line, "#")), " "))
	}
	return strings.Join(lines, "\n")
}

// TestSupportPage has a shell run every command of docs/support.md for a customer who
// has used up a limit, with a password and on a Redis Cluster.
func TestSupportPage(t *testing.T) {
	t.Parallel()
	var page supportPage
	text := testenv.File(t, "docs/support.md")
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		switch kind, body := block[1], block[2]; {
		case kind == "json":
			page.config = body
		case kind == "sh":
			page.commands = append(page.commands, body)
		case kind == "text" && len(page.commands) > len(page.outputs):
			page.outputs = append(page.outputs, body)
		case kind == "text" && page.answer == "":
			_, answer, _ := strings.Cut(body, "\n\n")
			page.answer = strings.NewReplacer("\n ", "", "\n", "").Replace(answer)
		}
	}
	testenv.Within(t, "the number of commands of docs/support.md", len(page.commands), 5, 100)
	testenv.Same(t, "its number of outputs", len(page.outputs), len(page.commands))
	testenv.Same(t, "that it has a configuration", page.config != "", true)
	testenv.Same(t, "that it has an answer", page.answer != "", true)
	if t.Failed() {
		t.FailNow()
	}
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "plugin.json"), []byte(page.config), 0o600))
	// The Envoy of the test has the password in its configuration, not in its environment.
	plugin := func(more string) string {
		return strings.Replace(page.config, `"password_env": "REDIS_PASSWORD"`,
			`"timeout": "10s"`+more+`}, "deny_cache": {"size": 0`, 1)
	}
	t.Run("one Redis, with a password", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--requirepass", password)
		s := start(t, plugin(`, "password": "`+password+`"`), envoytest.Options{Redis: []string{server.Addr}})
		host, port, _ := strings.Cut(server.Addr, ":")
		answerCustomer(t, &page, s, dir,
			fmt.Sprintf("REDIS='--redis %s'\nR='redis-cli -h %s -p %s'", server.Addr, host, port),
			"REDIS_PASSWORD="+password, "REDISCLI_AUTH="+password)
	})
	t.Run("Redis Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3)
		s := start(t, plugin(""), envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster})
		for _, addr := range cluster.Addrs() { // whichever node is asked first
			host, port, _ := strings.Cut(addr, ":")
			answerCustomer(t, &page, s, dir,
				fmt.Sprintf("REDIS='--redis %s --redis-cluster'\nR='redis-cli -c -h %s -p %s'", addr, host, port),
				"REDIS_PASSWORD=")
		}
	})
}

// answerCustomer brings a customer to a 429, which the page's commands, run by one shell, explain and
// then take away.
func answerCustomer(t *testing.T, page *supportPage, s *setting, dir, setup string, env ...string) {
	t.Helper()
	var last reply
	testenv.Wait(t, 3*patience, func() error {
		last = get(t, s.URL+"/api/orders", "x-api-key: alice")
		if last.status != http.StatusTooManyRequests || last.header.Get("X-Ratelimit-Limit") != "100" {
			return fmt.Errorf("status %d with %v, want a 429 by the daily limit", last.status, last.header)
		}
		return nil
	})
	if got, want := steady(last.body), steady(page.answer); got != want {
		t.Errorf("the answer is\n%s, the page has\n%s", got, want)
	}
	time.Sleep(3 * time.Second) // until the bucket is full again, of which the page says so
	const separator = "== end of a block"
	script := "set -eu\n" + setup + "\n"
	for _, block := range page.commands {
		script += block + "echo '" + separator + "'\n"
	}
	shell := exec.Command("bash", "-c", script)
	shell.Dir = dir
	tools := filepath.Dir(testenv.Tool(t, "redis-cli"))
	shell.Env = append(os.Environ(), append(env, "PATH="+filepath.Dir(sluice(t))+":"+tools+":"+os.Getenv("PATH"))...)
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for i, got := range strings.Split(strings.TrimSuffix(string(out), separator+"\n"), separator+"\n") {
		if got, want := steady(got), steady(page.outputs[i]); got != want {
			t.Errorf("%s prints\n%s, the page has\n%s", page.commands[i], got, want)
		}
	}
}
