// Command sluice is the plugin: a rate limiter for Envoy as a proxy-wasm filter.
package main

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"

func main() {}

func init() { proxywasm.SetVMContext(thisVM) }

// thisVM is the plugin in this VM: one worker of one Envoy.
var thisVM = newVM(envoyHost())
