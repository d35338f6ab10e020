//go:build tinygo

// Command empty is the least that a Wasm filter can do in Envoy: nothing ("accept" is
// its configuration) or an answer of the size of Sluice's ("reject"). What a setup
// of Sluice costs beyond this is Sluice's own.
package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() { proxywasm.SetVMContext(&vm{}) }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	rejects bool
}

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	configuration, err := proxywasm.GetPluginConfiguration()
	p.rejects = string(configuration) == "reject"
	return err == nil
}

func (p *plugin) NewHttpContext(uint32) types.HttpContext {
	if p.rejects {
		return &rejection{}
	}
	return &types.DefaultHttpContext{}
}

type rejection struct{ types.DefaultHttpContext }

var (
	headers = [][2]string{
		{"content-type", "application/problem+json"},
		{"retry-after", "3600"},
		{"x-ratelimit-limit", "1"},
		{"x-ratelimit-remaining", "0"},
		{"x-ratelimit-reset", "3600"},
	}
	body = []byte(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many ` +
		`Requests","status":429,` +
		`"detail":"Limit exceeded: bench. Retry after 3600 seconds.","violated-policies":["bench"]}`)
)

// OnHttpRequestHeaders rejects the request, without having looked at it.
func (*rejection) OnHttpRequestHeaders(int, bool) types.Action {
	if err := proxywasm.SendHttpResponse(429, headers, body, -1); err != nil {
		proxywasm.LogCritical(err.Error())
	}
	return types.ActionPause
}
