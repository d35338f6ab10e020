package meshtest

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Values are some of the chart's.
type Values = map[string]any

// Chart is the directory of the chart.
func Chart(t *testing.T) string {
	t.Helper()
	return filepath.Join(testenv.Root(t), "deploy/chart")
}

// Render renders deploy/<file> as the command in its first lines does, with other values in place
// of some.
func Render(t *testing.T, file string, sets ...Values) string {
	t.Helper()
	values, namespace := Read(t, file)
	for _, set := range sets {
		values = merged(values, set)
	}
	text, err := Template(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// merged are values with others over them, as Helm does it: objects are merged.
func merged(under, over Values) Values {
	all := maps.Clone(under)
	for name, value := range over {
		inner, isObject := value.(Values)
		if old, wasObject := under[name].(Values); isObject && wasObject {
			value = merged(old, inner)
		}
		all[name] = value
	}
	return all
}

// Read is a file with values of the chart, and the namespace that its first lines name.
func Read(t *testing.T, file string) (values Values, namespace string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`helm upgrade --install \S+ deploy/chart -n (\S+) -f deploy/(\S+)`)
	found := command.FindStringSubmatch(string(text))
	if found == nil || found[2] != file {
		t.Fatalf("deploy/%s does not say how to apply it: %q", file, found)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values, found[1]
}

// Template does what "helm template" does. An error is one of the values' schema, or of a template.
func Template(t *testing.T, namespace string, values Values) (string, error) {
	t.Helper()
	texts, err := rendered(t, namespace, values)
	if err != nil {
		return "", err
	}
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := strings.TrimSpace(texts[name])
		if path.Ext(name) == ".yaml" && text != "" {
			documents = append(documents, text)
		}
	}
	return strings.Join(documents, "\n---\n") + "\n", nil
}

// Notes is what "helm upgrade --install" says of deploy/<file> when all is applied.
func Notes(t *testing.T, file string, sets ...Values) string {
	t.Helper()
	values, namespace := Read(t, file)
	for _, set := range sets {
		values = merged(values, set)
	}
	texts, err := rendered(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return texts["sluice/templates/NOTES.txt"]
}

// rendered are the chart's files.
func rendered(t *testing.T, namespace string, values Values) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(Chart(t))
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "sluice", Namespace: namespace, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// Fill is a file with each @NAME@ replaced.
func Fill(t *testing.T, file string, with map[string]any) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	filled := string(text)
	for name, value := range with {
		filled = strings.ReplaceAll(filled, "@"+name+"@", fmt.Sprint(value))
	}
	return filled
}

// Plugin are the values with a configuration of the plugin, JSON. The chart puts its own cluster of Redis into it.
func Plugin(t *testing.T, text string) Values {
	t.Helper()
	var config Values
	testenv.OK(t, yaml.Unmarshal([]byte(text), &config))
	return Values{"config": config}
}

// Free are the values with a limit that costs nothing unless the request's x-cost says so; nothing refills it while a
// test runs.
func Free(t *testing.T, algorithm string, limit int) Values {
	t.Helper()
	return Plugin(t, fmt.Sprintf(`{"redis": {"timeout": "10s"}, "failure": {"mode": "deny"}, "rules": [
		{"name": "free", "cost": {"header": "x-cost", "default": 0, "max": 10},
		"limits": [{"algorithm": %q, "limit": %d, "window": "1d"}]}]}`, algorithm, limit))
}

// At are the values with an image of the plugin, and for a Redis on this machine.
func At(image string, redisPort int) Values {
	return Values{"image": image, "redis": Values{"nodes": []any{Values{"host": "127.0.0.1", "port": redisPort}}}}
}

// Document is the one of a kind in a text.
func Document(t *testing.T, text, kind string) string {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(document, "kind: "+kind+"\n") {
			return document
		}
	}
	t.Fatalf("no %s in\n%s", kind, text)
	return ""
}

// Patient gives limiters time for a Redis on a machine with other work.
func Patient() Values { return Values{"redis": Values{"timeout": "10s"}} }

// ExpectShown wants deploy/<file>, a page, to show pieces of what a test has seen, and the test to
// have seen them.
func ExpectShown(t *testing.T, file, seen string, pieces ...string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range pieces {
		if !strings.Contains(string(page), piece) {
			t.Errorf("deploy/%s does not show %q", file, piece)
		}
		if !strings.Contains(seen, piece) {
			t.Errorf("deploy/%s shows %q, which was not seen:\n%s", file, piece, seen)
		}
	}
}
