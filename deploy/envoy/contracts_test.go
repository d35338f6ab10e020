package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestContracts plays testdata/contracts.txt in a copy of contracts.yaml, contracts.csv and contracts.sh, with
// the command sluice, and:
//
//	answers N PATH FIELD WANT...  sends so many requests at once, and counts what answers them: "60 429". "+" is any
//	                              number above 0
//	eventually N PATH ...         does so again and again, until the answers are those wanted: rejections are
//	                              remembered for a moment
func TestContracts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	named := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.TrimSpace(name+" "+r.Header.Get("x-paid-by")))
		})
	}
	upstream, economy := envoytest.NewUpstream(t, named("upstream")), envoytest.NewUpstream(t, named("economy"))
	e := start(t, "contracts.yaml", func(c *envoyconf.Config) {
		c.SetRedis(server.Addr)
		c.SetUpstream(upstream.Addr)
		c.Set("static_resources/clusters/economy/load_assignment/endpoints", c.Endpoints([]string{economy.Addr}))
	})
	command := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", command, "../../cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/contracts.txt"},
		Setup: func(env *testscript.Env) error {
			env.Values["t"] = env.T()
			env.Setenv("PATH", command+":"+env.Getenv("PATH"))
			env.Setenv("SLUICE_REDIS", server.Addr)
			env.Setenv("SLUICE_CONFIG", env.WorkDir+"/contracts.yaml")
			out, err := exec.Command("cp", "contracts.yaml", "contracts.csv", "contracts.sh", env.WorkDir).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"answers": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(answers(e.URL, args)) },
			"eventually": func(ts *testscript.TestScript, _ bool, args []string) {
				testenv.Wait(ts.Value("t").(testing.TB), patience, func() error { return answers(e.URL, args) })
			},
		},
	})
}

// answers sends a customer's requests at once, and compares what answers them.
func answers(url string, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	counts := map[string]int{}
	for range n {
		group.Go(func() {
			resp, body, err := testenv.Send(http.MethodGet, url+args[1], "", args[2])
			answer := fmt.Sprint(err)
			if err == nil {
				answer = fmt.Sprint(resp.StatusCode) + map[bool]string{true: " " + body}[resp.StatusCode == http.StatusOK]
			}
			mu.Lock()
			counts[answer]++
			mu.Unlock()
		})
	}
	group.Wait()
	for _, want := range args[3:] {
		number, answer, _ := strings.Cut(want, " ")
		if got := counts[answer]; fmt.Sprint(got) != number && (number != "+" || got == 0) {
			return fmt.Errorf("%s as %s: %v, want %q", args[1], args[2], counts, args[3:])
		}
	}
	return nil
}
