// Command image packs the built plugin for registries: as an OCI image layout,
// with a bill of materials next to it. The same plugin and version give the same
// bytes, whenever and wherever.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	var o options
	flag.StringVar(&o.wasm, "wasm", "build/sluice.wasm", "the built plugin")
	flag.StringVar(&o.version, "version", "dev", "its version")
	flag.StringVar(&o.layout, "layout", "", "directory of the OCI image layout to write, replaced")
	flag.StringVar(&o.sbom, "sbom", "", "CycloneDX file to write")
	flag.StringVar(&o.source, "source", ".", "root of the source, for the bill of materials")
	flag.StringVar(&o.push, "push", "", "reference to push the image to, such as ghcr.io/you/sluice:v1")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options are the flags; what is "" is not made.
type options struct {
	wasm, version        string
	layout, sbom, source string
	push                 string
}

// run makes what the options ask for, and prints the image's digest.
func run(o options) error {
	code, err := os.ReadFile(o.wasm)
	if err != nil {
		return err
	}
	image, err := pack(code, o.version)
	if err != nil {
		return err
	}
	if o.layout != "" {
		if err := writeLayout(o.layout, image, o.version); err != nil {
			return err
		}
	}
	if o.sbom != "" {
		if err := writeSBOM(o.sbom, o.source, code, o.version); err != nil {
			return err
		}
	}
	if o.push != "" {
		if err := push(o.push, image); err != nil {
			return err
		}
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// writeLayout writes a directory as of
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md
func writeLayout(dir string, image v1.Image, version string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": version,
	}))
}

// push uploads the image with the credentials that docker and podman keep.
func push(reference string, image v1.Image) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	return remote.Write(ref, image, remote.WithAuthFromKeychain(authn.DefaultKeychain))
}
