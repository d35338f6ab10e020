// Package envoytest runs a real Envoy for a test, with the shipped envoy.yaml
// as its configuration except for what the test changes: on loopback and free
// ports, gone when the test ends. A crash of Envoy or of the plugin's VM fails
// the test.
package envoytest
