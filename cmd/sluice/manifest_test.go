package main

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// TestWebhookManifest holds that the manifest asks for what the webhook serves, and that its pods are
// what the restricted Pod Security Standard admits, and what bounds a pod's memory, and who may ask it
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted).
func TestWebhookManifest(t *testing.T) {
	t.Parallel()
	all := map[string]*yaml.Node{} // the objects by their kinds
	for text := range strings.SplitSeq(string(testenv.File(t, "deploy/webhook/webhook.yaml")), "\n---\n") {
		var document yaml.Node
		testenv.OK(t, yaml.Unmarshal([]byte(text), &document))
		all[yamltree.Text(document.Content[0], "kind")] = document.Content[0]
	}
	pod := yamltree.Get(all["Deployment"], "spec", "template", "spec")
	container := yamltree.List(pod, "containers")[0]
	hook := yamltree.List(all["ValidatingWebhookConfiguration"], "webhooks")[0]
	volume := yamltree.List(pod, "volumes")[0]
	secure := yamltree.Get(container, "securityContext")
	policy := all["NetworkPolicy"]
	ingress := yamltree.List(policy, "spec", "ingress")[0]
	for _, c := range []struct{ what, got, want string }{
		{
			"enforced", yamltree.Text(all["Namespace"], "metadata", "labels", "pod-security.kubernetes.io/enforce"),
			"restricted",
		},
		{"runAsNonRoot", yamltree.Text(pod, "securityContext", "runAsNonRoot"), "true"},
		{"seccompProfile", yamltree.Text(pod, "securityContext", "seccompProfile", "type"), "RuntimeDefault"},
		{"allowPrivilegeEscalation", yamltree.Text(secure, "allowPrivilegeEscalation"), "false"},
		{"capabilities", string(yamltree.JSON(yamltree.Get(secure, "capabilities"))), `{"drop":["ALL"]}`},
		{"readOnlyRootFilesystem", yamltree.Text(secure, "readOnlyRootFilesystem"), "true"},
		{"token", yamltree.Text(pod, "automountServiceAccountToken"), "false"},
		{"failurePolicy", yamltree.Text(hook, "failurePolicy"), "Ignore"},
		{"sideEffects", yamltree.Text(hook, "sideEffects"), "None"},
		{"admissionReviewVersions", string(yamltree.JSON(yamltree.Get(hook, "admissionReviewVersions"))), `["v1"]`},
		{"path", yamltree.Text(hook, "clientConfig", "service", "path"), "/validate"},
		{
			"service", yamltree.Text(hook, "clientConfig", "service", "name"),
			yamltree.Text(all["Service"], "metadata", "name"),
		},
		{"secret", yamltree.Text(volume, "secret", "secretName"), yamltree.Text(all["Certificate"], "spec", "secretName")},
		{
			"selector", yamltree.Text(all["Service"], "spec", "selector", "app"),
			yamltree.Text(all["Deployment"], "spec", "template", "metadata", "labels", "app"),
		},
		{"memory", yamltree.Text(container, "resources", "limits", "memory"), "512Mi"},
		{"Go's memory", yamltree.Text(yamltree.List(container, "env")[0], "value"), "400MiB"},
		{"the policy's port", yamltree.Text(yamltree.List(ingress, "ports")[0], "port"), "https"},
		{"what pods may ask", string(yamltree.JSON(yamltree.Get(policy, "spec", "egress"))), "[]"},
		{
			"the policy's pods", yamltree.Text(policy, "spec", "podSelector", "matchLabels", "app"),
			yamltree.Text(all["Deployment"], "spec", "template", "metadata", "labels", "app"),
		},
	} {
		testenv.Same(t, c.what, c.got, c.want)
	}
	resources := ""
	for _, rule := range yamltree.List(hook, "rules") {
		for _, n := range yamltree.List(rule, "resources") {
			resources += n.Value + " "
		}
	}
	if resources != "wasmplugins trafficextensions envoyfilters envoyextensionpolicies " {
		t.Errorf("it is asked about %s", resources)
	}
	var args []string
	for _, n := range yamltree.List(container, "args") {
		args = append(args, n.Value)
	}
	// The arguments are those of the command: with files that are not there it says so.
	r := execute(t, "", slices.Concat(args[:1], []string{"--addr", "127.0.0.1:0"}, args[3:])...)
	if r.code != console.Misused || !strings.Contains(r.errors, "/tls/tls.crt: no such file") {
		t.Errorf("%q: exit code %d, %s", args, r.code, r.errors)
	}
}
