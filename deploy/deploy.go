// Package deploy holds the files that users apply, for the programs that make
// files of them.
package deploy

import "embed"

// Files are the configurations of this directory, by their paths below it.
//
//go:embed envoy/*.yaml relay/*.yaml relay/kubernetes/*.yaml istio/*/*.yaml envoy-gateway/*.yaml envoy-gateway/*/*.yaml
var Files embed.FS
