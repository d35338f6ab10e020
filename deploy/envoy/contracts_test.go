package envoy_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// repository is a copy of contracts.csv with its script, and of the command.
type repository struct {
	t        *testing.T
	dir      string
	contract string // what contracts.csv says
	redis    string
}

func newRepository(t *testing.T, redis string) *repository {
	t.Helper()
	r := &repository{t: t, dir: t.TempDir(), redis: redis}
	if out, err := exec.Command("go", "build", "-o", r.dir, "../../cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"contracts.yaml", "contracts.csv", "contracts.sh"} {
		text := testenv.Read(t, name)
		r.write(name, string(text))
		r.contract = map[bool]string{true: string(text), false: r.contract}[name == "contracts.csv"]
	}
	return r
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	testenv.OK(r.t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o700))
}

// run runs the script with the file changed, and wants what it says and how it ends.
func (r *repository) run(argument, old, changed string, code int, want string) {
	r.t.Helper()
	r.write("contracts.csv", strings.Replace(r.contract, old, changed, 1))
	script := exec.Command(filepath.Join(r.dir, "contracts.sh"), argument)
	script.Env = append(os.Environ(), "SLUICE_REDIS="+r.redis, "PATH="+r.dir+":"+os.Getenv("PATH"))
	out, _ := script.CombinedOutput()
	testenv.Same(r.t, argument+": exit code", script.ProcessState.ExitCode(), code)
	testenv.Same(r.t, argument+": output", string(out), want)
}

// sluice runs the command itself, which must succeed, and returns what it prints.
func (r *repository) sluice(args ...string) string {
	r.t.Helper()
	command := exec.Command(filepath.Join(r.dir, "sluice"), args...)
	command.Env = append(os.Environ(), "SLUICE_REDIS="+r.redis, "SLUICE_CONFIG="+filepath.Join(r.dir, "contracts.yaml"))
	out, err := command.Output()
	if err != nil {
		r.t.Fatalf("sluice %q: %v", args, err)
	}
	return string(out)
}

// byHand changes one customer's contract by the command, without the file, and exports what is in force.
// Imported, the export changes nothing.
func (r *repository) byHand(g *gateway) {
	r.t.Helper()
	r.sluice("override", "contract", "walk-in", "--limit", "contract=3")
	g.wantAnswers("--limit", g.answers(9, "/api/", "x-api-key: walk-in"), map[string]int{"200 upstream ": 3, "429": 6})
	r.sluice("override", "contract", "walk-in", "--tier", "staff")
	testenv.Wait(r.t, patience, func() error { // the rejections are remembered for a moment
		if got := g.answers(9, "/api/", "x-api-key: walk-in"); got["200 upstream "] < 9 {
			return fmt.Errorf("--tier: %v, want no limit", got)
		}
		return nil
	})
	r.write("export.csv", r.sluice("override", "export", "contract"))
	testenv.Same(r.t, "import of an export", r.sluice("override", "import", filepath.Join(r.dir, "export.csv")),
		"0 added, 0 changed, 0 removed, 5 the same\n")
}

// answers sends a customer's requests at once, and counts what answers them.
func (g *gateway) answers(n int, path string, header ...string) map[string]int {
	g.t.Helper()
	var group sync.WaitGroup
	all := make(chan string, n)
	for range n {
		group.Go(func() {
			req, err := http.NewRequest(http.MethodGet, g.url+path, http.NoBody)
			if err != nil {
				all <- err.Error()
				return
			}
			for _, h := range header {
				name, value, _ := strings.Cut(h, ": ")
				req.Header.Set(name, value)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				all <- err.Error()
				return
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			all <- fmt.Sprint(resp.StatusCode) + map[bool]string{true: " " + string(body)}[resp.StatusCode == http.StatusOK]
		})
	}
	group.Wait()
	close(all)
	counts := map[string]int{}
	for answer := range all {
		counts[answer]++
	}
	return counts
}

// wantAnswers compares what answered.
func (g *gateway) wantAnswers(what string, got, want map[string]int) {
	g.t.Helper()
	if !maps.Equal(got, want) {
		g.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestContracts: contracts.csv is checked, imported and changed by its script, and what it says is in
// force at once: tiers, numbers, credits and blocks. What is over other limits goes to slower machines
// or gets a page.
func TestContracts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	named := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, name+r.Header.Get("x-paid-by"))
		})
	}
	upstream, economy := envoytest.NewUpstream(t, named("upstream ")), envoytest.NewUpstream(t, named("economy "))
	g := start(t, "contracts.yaml", nil, func(c *envoyconf.Config) {
		c.SetRedis(server.Addr)
		c.SetUpstream(upstream.Addr)
		c.Set("static_resources/clusters/economy/load_assignment/endpoints", c.Endpoints([]string{economy.Addr}))
	})
	r := newRepository(t, server.Addr)
	r.contracts(g)
	r.byHand(g)
	mistake := "contracts.csv:2: there is no tier \"gold\" (want one of \"free\", \"pro\", \"staff\")\n" +
		"sluice: nothing is written: the file has 1 mistake\n"
	r.run("check", "tier:pro", "tier:gold", 1, mistake)
	r.run("import", "tier:pro", "tier:gold", 1, mistake)
	r.run("help", "", "", 2, "want: contracts.sh check, or contracts.sh import\n")

	testenv.Wait(t, patience, func() error {
		if got := g.answers(64, "/search", "x-api-key: acme"); got["200 upstream "] == 0 || got["200 economy "] == 0 {
			return fmt.Errorf("searches: %v, want answers of both machines", got)
		}
		return nil
	})
	const page = "200 <p>We are busy. Please come back in a minute.</p>"
	testenv.Wait(t, patience, func() error {
		if got := g.answers(64, "/shop/", "accept: text/html"); got["200 upstream "] == 0 || got[page] == 0 {
			return fmt.Errorf("visitors: %v, want pages of the shop and that it is busy", got)
		}
		return nil
	})
}

// contracts has the script set what the file says, and then a change of it.
func (r *repository) contracts(g *gateway) {
	r.t.Helper()
	const all = "4 added, 0 changed, 0 removed, 0 the same\n"
	r.run("check", "", "", 0, all+`+ contract|822b33ad87c148a0a20a5ba7cd5ebcaa68d36a18  tier:pro
+ contract|79891e980747ffbd21e690297394efe764fa56d7  limits:contract=20,credits=5
+ contract|18d63be10ad544a04a22c944dee01d6d864ec69b  tier:staff
+ contract|c0a497761b175379ed63397cc980546559faa84c  block for 24h
`+all)
	r.run("import", "", "", 0, all)
	for customer, want := range map[string]map[string]int{
		"trial": {"200 upstream ": 20, "200 upstream credits": 5, "429": 35},
		"acme":  {"200 upstream ": 60}, "robot": {"200 upstream ": 60}, "mallory": {"429": 60},
	} {
		g.wantAnswers(customer, g.answers(60, "/api/", "x-api-key: "+customer), want)
	}
	const change = `0 added, 1 changed, 0 removed, 3 the same
`
	r.run("check", "contract=20", "contract=40", 0, change+
		"~ contract|79891e980747ffbd21e690297394efe764fa56d7  "+
		"limits:contract=20,credits=5 -> limits:contract=40,credits=5\n"+change)
	g.wantAnswers("trial, checked", g.answers(60, "/api/", "x-api-key: trial"), map[string]int{"429": 60})
	r.run("import", "contract=20", "contract=40", 0, change)
	testenv.Wait(r.t, patience, func() error { // rejections of before are remembered for a moment
		if got := g.answers(1, "/api/", "x-api-key: trial"); got["429"] > 0 {
			return fmt.Errorf("trial, imported: %v", got)
		}
		return nil
	})
	g.wantAnswers("trial, imported", g.answers(60, "/api/", "x-api-key: trial"),
		map[string]int{"200 upstream ": 19, "429": 41})
}
