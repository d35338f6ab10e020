// Package e2e holds the black box tests: the built plugin in a real Envoy, with
// the shipped envoy.yaml, against a real Redis. They read design and
// documentation as a user would, and import nothing of the plugin.
//
// What a client sees of requests one after the other, at once or held by the upstream is a scenario, text
// in internal/scenario. All of them share two Envoys, with a listener and a prefix in Redis for each, as
// starting one takes a second. So do the tests in Go of TestPlain, some with a Redis of their own to harm. The
// others are about what only a process of its own shows: reloads, crowds, clusters, upgrades, and in
// observe*_test.go what a real Prometheus shows operators, with the rules and the dashboard of deploy/.
package e2e
