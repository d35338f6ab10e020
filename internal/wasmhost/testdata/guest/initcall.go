//go:build initcall

package main

// A call that Envoy does not allow while a guest is initialized.
func init() { proxySetTickPeriodMilliseconds(1) }
