package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/webhook"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// verdict is the result of a review.
type verdict struct {
	UID      string
	Allowed  bool
	Status   struct{ Message string }
	Warnings []string
}

// review asks about an object.
func review(t *testing.T, h *webhook.Handler, operation, kind, object, before string) verdict {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(fmt.Sprintf(
		`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", `+
			`"request": {"uid": "u-1", "kind": {"group": "g", "version": "v", "kind": %q}, "operation": %q, "object": %s, `+
			`"oldObject": %s}}`,
		kind, operation, object, before,
	)))
	r.Header.Set("content-type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	testenv.Same(t, "the status", w.Code, http.StatusOK)
	answer := decode[struct {
		APIVersion, Kind string
		Response         verdict
	}](t, result{out: w.Body.String()})
	testenv.Same(t, "the answer's version", answer.APIVersion, "admission.k8s.io/v1")
	testenv.Same(t, "its kind", answer.Kind, "AdmissionReview")
	testenv.Same(t, "its review", answer.Response.UID, "u-1")
	return answer.Response
}

func wasmPlugin(config string) string {
	return `{"apiVersion": "extensions.istio.io/v1alpha1", "kind": "WasmPlugin", "metadata": {"name": "sluice"}, ` +
		`"spec": {"url": "oci://x/sluice", "pluginConfig": ` + config + `}}`
}

const (
	goodPlugin = `{"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`
	badPlugin  = `{"rules": [{"name": "a", "limits": [{"algorithm": "gcra", "limit": 1, "window": "10x"}]}]}`
	wrongText  = `sluice: rules[0].limits[0].window: "10x" is not a duration (want one such as "500ms", "1s", "1m", ` +
		`"1h", "1d")`
)

var (
	policyOfGateway = `{"kind": "EnvoyExtensionPolicy", "metadata": {"name": "sluice"}, ` +
		`"spec": {"wasm": [{"name": "sluice", "config": ` + badPlugin + `}]}}`
	envoyFilter = `{"kind": "EnvoyFilter", "metadata": {"name": "x"},
		"spec": {"configPatches": [{"applyTo": "HTTP_FILTER", "patch": {"operation": "INSERT_BEFORE", "value":
		{"name": "sluice", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
			"config": {"name": "sluice",
		"configuration": {"@type": "type.googleapis.com/google.protobuf.StringValue",
			"value": ` + strconv.Quote(badPlugin) + `}}}}}}]}}`
	mergedCluster = `{"kind": "EnvoyFilter", "metadata": {"name": "x"}, ` +
		`"spec": {"configPatches": [{"applyTo": "CLUSTER", ` +
		`"patch": {"operation": "MERGE", "value": {"name": "redis", "connect_timeout": "1s"}}}]}}`
)

// reviews are questions to the webhook, and its answers.
var reviews = []struct {
	name, operation, kind, object, before string
	message                               string // "": allowed
	warning                               string
}{
	{"a right one", "CREATE", "WasmPlugin", wasmPlugin(goodPlugin), "null", "", ""},
	{"a wrong one", "CREATE", "WasmPlugin", wasmPlugin(badPlugin), "null", wrongText, ""},
	{
		"a wrong one in place of a right one", "UPDATE", "WasmPlugin", wasmPlugin(badPlugin), wasmPlugin(goodPlugin),
		wrongText, "",
	},
	{
		"a wrong one that stays as it was", "UPDATE", "WasmPlugin",
		strings.Replace(wasmPlugin(badPlugin), `"name": "sluice"}`, `"name": "sluice", "labels": {}}`, 1),
		wasmPlugin(badPlugin), "", "",
	},
	{"a wrong one that goes", "DELETE", "WasmPlugin", "null", wasmPlugin(badPlugin), "", ""},
	{"Envoy Gateway", "CREATE", "EnvoyExtensionPolicy", policyOfGateway, "null", wrongText, ""},
	{"an EnvoyFilter", "CREATE", "EnvoyFilter", envoyFilter, "null", wrongText, ""},
	{"an EnvoyFilter about something else", "CREATE", "EnvoyFilter", mergedCluster, "null", "", ""},
	{"another kind", "CREATE", "Gateway", wasmPlugin(badPlugin), "null", "", ""},
	{
		"another plugin", "CREATE", "WasmPlugin",
		`{"kind": "WasmPlugin", "metadata": {"name": "waf"}, ` +
			`"spec": {"url": "oci://waf", "pluginConfig": {"rules": ["x"]}}}`, "null", "", "",
	},
	{
		"a control that YAML does not take", "CREATE", "WasmPlugin",
		strings.Replace(wasmPlugin(badPlugin), `"oci://x`, "\"oci://\u007f", 1), "null", wrongText, "",
	},
	{
		"no variable for the password", "CREATE", "WasmPlugin",
		wasmPlugin(`{"redis": {"cluster": "r", "password_env": "PW"}, ` + goodPlugin[1:]), "null",
		`sluice: redis.password_env: the plugin is not given the environment variable "PW"`, "",
	},
	{
		"a warning", "CREATE", "WasmPlugin",
		wasmPlugin(`{"rules": [{"name": "all", "exempt": true}, {"name": "a", "limits": [` + aLimit + `]}]}`), "null", "",
		`sluice: rules[1]: rule "a" is never reached`,
	},
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	h := webhook.New(admit)
	for _, c := range reviews {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := review(t, h, c.operation, c.kind, c.object, c.before)
			if v.Allowed != (c.message == "") {
				t.Errorf("allowed: %t", v.Allowed)
			}
			if !strings.Contains(v.Status.Message, c.message) {
				t.Errorf("message %s\nwant %s", v.Status.Message, c.message)
			}
			if got := strings.Join(v.Warnings, "\n"); !strings.HasPrefix(got, c.warning) || (got != "") != (c.warning != "") {
				t.Errorf("warnings %s\nwant %s", got, c.warning)
			}
		})
	}
}

// TestWebhookRefusesAllMistakes puts every configuration that the tests of the parser know as wrong
// into a WasmPlugin. The webhook must refuse it with the words of validate, but for its notes.
func TestWebhookRefusesAllMistakes(t *testing.T) {
	t.Parallel()
	h := webhook.New(admit)
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "plugin/config/testdata/*.txt"))
	testenv.OK(t, err)
	count := 0
	for _, file := range files {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			config, ok := testenv.WholeConfig(d.Cmd, d.Input)
			if !ok {
				t.Fatalf("%s: what is %q?", d.Pos, d.Cmd)
			}
			count++
			object := wasmPlugin(config)
			v := review(t, h, "CREATE", "WasmPlugin", object, "null")
			r := execute(t, object, "validate", "-")
			if v.Allowed != (r.code == console.Done) {
				t.Errorf("allowed: %t, validate exits with %d: %s", v.Allowed, r.code, config)
			}
			for line := range strings.Lines(r.out) {
				_, said, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "-:")), ": ")
				if r.code == console.Done || strings.HasPrefix(said, "note: ") {
					continue
				}
				if !strings.Contains(v.Status.Message+strings.Join(v.Warnings, "\n"), strings.TrimPrefix(said, "warning: ")) {
					t.Errorf("%s\nvalidate says %s", v.Status.Message, said)
				}
			}
			return d.Expected
		})
	}
	if count < 300 {
		t.Errorf("only %d configurations", count)
	}
}

// TestWebhookWithoutCertificate: the command does not start without one.
func TestWebhookWithoutCertificate(t *testing.T) {
	t.Parallel()
	r := execute(t, "", "webhook", "--addr", "127.0.0.1:0", "--tls-cert", "/nowhere", "--tls-key", "/nowhere")
	if r.code != console.Misused || !strings.Contains(r.errors, "/nowhere") {
		t.Errorf("without a certificate: exit code %d, %s", r.code, r.errors)
	}
}
