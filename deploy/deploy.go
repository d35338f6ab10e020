// Package deploy holds the files that users apply, for the programs that make
// files of them.
package deploy

import "embed"

// Files are the configurations of this directory, by their paths below it.
//
//go:embed envoy/*.yaml relay/*.yaml istio/*.yaml envoy-gateway/*.yaml chart/*.yaml chart/values.schema.json
//go:embed chart/templates/*.yaml chart/templates/_helpers.tpl
var Files embed.FS
