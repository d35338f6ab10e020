// Command sluice is the plugin: a rate limiter for Envoy as a proxy-wasm filter.
package main

import "cmp"

// version is the version of this build, which the Makefile sets. TinyGo sets only a variable that
// has no value of its own, so ask buildVersion.
var version string

// buildVersion is the release's version, or "dev".
func buildVersion() string { return cmp.Or(version, "dev") }

func main() {}
