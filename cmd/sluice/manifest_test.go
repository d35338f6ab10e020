package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// manifests are the objects of deploy/webhook by their kinds.
func manifests(t *testing.T) map[string]*yaml.Node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "deploy/webhook/webhook.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*yaml.Node{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[find.Text(document.Content[0], "kind")] = document.Content[0]
	}
}

// TestWebhookManifest holds that the manifest asks for what the webhook serves, and that its pods are
// what the restricted Pod Security Standard admits
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted).
func TestWebhookManifest(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	pod := find.Get(all["Deployment"], "spec", "template", "spec")
	container := find.List(find.Get(pod, "containers"))[0]
	hook := find.List(find.Get(all["ValidatingWebhookConfiguration"], "webhooks"))[0]
	volume := find.List(find.Get(pod, "volumes"))[0]
	secure := find.Get(container, "securityContext")
	for _, c := range []struct{ what, got, want string }{
		{"enforced", find.Text(all["Namespace"], "metadata", "labels", "pod-security.kubernetes.io/enforce"), "restricted"},
		{"runAsNonRoot", find.Text(pod, "securityContext", "runAsNonRoot"), "true"},
		{"seccompProfile", find.Text(pod, "securityContext", "seccompProfile", "type"), "RuntimeDefault"},
		{"allowPrivilegeEscalation", find.Text(secure, "allowPrivilegeEscalation"), "false"},
		{"capabilities", string(find.JSON(find.Get(secure, "capabilities"))), `{"drop":["ALL"]}`},
		{"readOnlyRootFilesystem", find.Text(secure, "readOnlyRootFilesystem"), "true"},
		{"token", find.Text(pod, "automountServiceAccountToken"), "false"},
		{"failurePolicy", find.Text(hook, "failurePolicy"), "Ignore"},
		{"sideEffects", find.Text(hook, "sideEffects"), "None"},
		{"admissionReviewVersions", string(find.JSON(find.Get(hook, "admissionReviewVersions"))), `["v1"]`},
		{"path", find.Text(hook, "clientConfig", "service", "path"), "/validate"},
		{"service", find.Text(hook, "clientConfig", "service", "name"), find.Text(all["Service"], "metadata", "name")},
		{"secret", find.Text(volume, "secret", "secretName"), find.Text(all["Certificate"], "spec", "secretName")},
		{"selector", find.Text(all["Service"], "spec", "selector", "app"), find.Text(all["Deployment"], "spec", "template", "metadata", "labels", "app")},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	resources := ""
	for _, rule := range find.List(find.Get(hook, "rules")) {
		for _, n := range find.List(find.Get(rule, "resources")) {
			resources += n.Value + " "
		}
	}
	if resources != "wasmplugins trafficextensions envoyfilters envoyextensionpolicies " {
		t.Errorf("it is asked about %s", resources)
	}
	var args []string
	for _, n := range find.List(find.Get(container, "args")) {
		args = append(args, n.Value)
	}
	// The arguments are those of the command: with files that are not there it says so.
	r := execute(t, "", slices.Concat(args[:1], []string{"--addr", "127.0.0.1:0"}, args[3:])...)
	if r.code != exitUsage || !strings.Contains(r.errors, "/tls/tls.crt: no such file") {
		t.Errorf("%q: exit code %d, %s", args, r.code, r.errors)
	}
}
