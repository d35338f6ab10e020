// Command sluice is the plugin: a rate limiter for Envoy as a proxy-wasm filter.
package main

// version is the version of this build, which the Makefile sets. TinyGo sets only a variable that
// has no value of its own, so ask buildVersion.
var version string

// buildVersion is the release's version, or "dev".
func buildVersion() string {
	if version == "" {
		return "dev"
	}
	return version
}

func main() {}
