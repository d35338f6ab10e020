// Package e2e holds the black box tests: the built plugin in a real Envoy, with
// the shipped envoy.yaml, against a real Redis. They read design and
// documentation as a user would, and import nothing of the plugin.
package e2e
