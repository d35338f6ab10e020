package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestThreeFiles: Envoy asks another machine, answers on all addresses, and finds its files in its own folder.
func TestThreeFiles(t *testing.T) {
	t.Parallel()
	files, err := threeFiles(testenv.Root(t), "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file         string
		store        []string // the ports that are at the store
		everywhere   string   // the port that listens on all addresses
		hasTheFilter bool
	}{
		{"none.yaml", []string{"25002"}, "25000", false},
		{"sluice.yaml", []string{"25002", "25003"}, "25000", true},
		{"ratelimit.yaml", []string{"25002", "25004"}, "25000", false},
		{"upstream.yaml", nil, "25002", false},
	} {
		ports := map[string][]string{}
		for line := range strings.SplitSeq(files[c.file], "address: ") {
			host, rest, _ := strings.Cut(line, "port_value: ")
			host = strings.Trim(strings.TrimSpace(host), ",")
			if len(rest) >= 5 {
				ports[host] = append(ports[host], rest[:5])
			}
		}
		slices.Sort(ports["192.0.2.1"])
		testenv.SameList(t, c.file+": ports of the store", ports["192.0.2.1"], c.store)
		testenv.SameList(t, c.file+": open ports", ports["0.0.0.0"], []string{c.everywhere})
		testenv.Same(t, c.file+" names the filter", strings.Contains(files[c.file], "filename: sluice.wasm"), c.hasTheFilter)
		absolute := filepath.Join(testenv.Root(t), "build")
		testenv.Same(t, c.file+" names this machine's files", strings.Contains(files[c.file], absolute), false)
	}
	testenv.Same(t, "that the service listens", strings.Contains(files["service.env"], "GRPC_HOST=0.0.0.0\n"), true)
}
