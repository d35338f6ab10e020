package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestImportUnderTraffic: while a hundred thousand contracts are imported, Redis decides every request of
// two listeners, and those who have a contract when all is done have what it says.
func TestImportUnderTraffic(t *testing.T) {
	t.Parallel()
	const many = 100_000
	dir := t.TempDir()
	var file strings.Builder
	file.WriteString("rule,values,setting,for\n")
	for i := range many {
		fmt.Fprintf(&file, "c,customer-%d,limits:c=%d,\n", i, i%50)
	}
	for name, text := range map[string]string{"contracts.csv": file.String(), "plugin.json": contractRules} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	server := redistest.Start(t)
	s := start(t, contractRules, envoytest.Options{
		Redis: []string{server.Addr}, Quiet: true, Beside: map[string]string{"two": contractRules},
	})
	command := exec.Command(sluice(t), "override", "import", "contracts.csv", "-c", "plugin.json",
		"--redis", server.Addr)
	command.Dir = dir
	begun, ended := time.Now(), make(chan string)
	go func() {
		out, err := command.CombinedOutput()
		ended <- fmt.Sprintf("%s%v", out, err)
	}()
	answered := tally{}
	for n, done := 0, false; !done; n++ {
		both := []string{s.URL + "/c", s.Beside["two"] + "/c"}
		for status, count := range burst(t, 64, 16, both, fmt.Sprintf("x-n: %d", n)) {
			answered[status] += count
		}
		for status, count := range burst(t, 16, 16, []string{fmt.Sprintf("%s/c?u=%d", s.URL, n)}) {
			answered[status] += count
		}
		select {
		case said := <-ended:
			testenv.Same(t, "import says", said, fmt.Sprintf("%d added, 0 changed, 0 removed, 0 the same\n<nil>", many))
			done = true
		default:
		}
	}
	t.Logf("%d contracts in %v, meanwhile answers by status: %v", many, time.Since(begun), answered)
	for status := range answered { // none is undecided: that would be a 503
		testenv.Same(t, "that a status is of a decision", status == http.StatusOK || status == limitedStatus, true)
	}
	testenv.Same(t, "contracts in Redis", len(server.Client().Keys(ctx, "rl:{c|customer-*}:override").Val()), many)
	for _, i := range []int{0, 7, 49, many - 1} {
		want := tally{http.StatusOK: i % 50, limitedStatus: 60 - i%50}
		for status, n := range want {
			if n == 0 {
				delete(want, status)
			}
		}
		got := burst(t, 60, 6, []string{fmt.Sprintf("%s/c?u=customer-%d", s.Beside["two"], i)})
		expectTally(t, fmt.Sprintf("customer %d", i), got, want)
	}
}
