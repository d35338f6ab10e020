package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pluginFile is where Istio and Envoy Gateway look for the plugin in an image.
const pluginFile = "plugin.wasm"

// pack makes the image of a plugin: the "compat" variant of the Wasm image
// specification, with OCI's media types. It is an ordinary image of one layer
// with one file, which every registry takes.
// https://github.com/solo-io/wasm/blob/master/spec/spec-compat.md
func pack(code []byte, version string) (v1.Image, error) {
	archive, err := tarOf(pluginFile, code)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "wasip1", "wasm"
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return mutate.Annotations(image, map[string]string{
		"org.opencontainers.image.title":       "Sluice",
		"org.opencontainers.image.description": "Distributed rate limiter inside Envoy",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
	}).(v1.Image), nil
}

// tarOf is an archive of one file, without time or owner.
func tarOf(name string, content []byte) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
