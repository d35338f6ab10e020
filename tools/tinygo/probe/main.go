// Probe is the smallest plugin: a compiler that builds it for the plugin's
// target has all that the target asks for.
package main

func main() {}

//export proxy_abi_version_0_2_1
func proxyABIVersion() {}
