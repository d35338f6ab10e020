// Command sluice is the plugin: a rate limiter for Envoy as a proxy-wasm filter.
package main

// version is what this build is, set by the Makefile. TinyGo sets only a variable that has no
// value of its own; ask buildVersion.
var version string

// buildVersion is what this build is: a release's version, or "dev".
func buildVersion() string {
	if version == "" {
		return "dev"
	}
	return version
}

func main() {}
