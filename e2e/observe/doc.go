// Package observe holds the tests of what operators see: a real Prometheus scrapes
// a real Envoy with the plugin under load, with the rules and the dashboard of
// deploy/, and finds there what the clients saw.
package observe
