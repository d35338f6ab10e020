package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var code = bytes.Repeat([]byte("\x00asm plugin"), 1000)

// made is what the command makes for a plugin: an image, the digest by which its layout lists it, and the
// bill of materials.
func made(t *testing.T, o options) (image v1.Image, digest, bom string) {
	t.Helper()
	dir := t.TempDir()
	o.wasm, o.version = filepath.Join(dir, "sluice.wasm"), "v1"
	o.layout, o.sbom, o.source = filepath.Join(dir, "image"), filepath.Join(dir, "sbom"), "../.."
	err := os.WriteFile(o.wasm, code, 0o600)
	for range 2 { // the second replaces what the first wrote
		err = errors.Join(err, run(o))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, noText := os.ReadFile(o.sbom)
	index, err := layout.ImageIndexFromPath(o.layout)
	if err := errors.Join(noText, err); err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%d images, %v; want 1", len(manifest.Manifests), err)
	}
	listed := manifest.Manifests[0].Digest
	if image, err = index.Image(listed); err != nil {
		t.Fatal(err)
	}
	return image, listed.String(), string(text)
}

func TestImage(t *testing.T) {
	t.Parallel()
	image, digest, _ := made(t, options{})
	if got, err := image.Digest(); err != nil || got.String() != digest {
		t.Errorf("the image is %s, %v, and listed as %s", got, err, digest)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want 1", len(layers), err)
	}
	if kind, err := layers[0].MediaType(); kind != types.OCILayer || err != nil {
		t.Errorf("the layer is %s, %v", kind, err)
	}
	archive, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(archive)
	header, err := files.Next()
	if err != nil || header.Name != "plugin.wasm" {
		t.Fatalf("file %v, %v; want plugin.wasm", header, err)
	}
	if got, err := io.ReadAll(files); !bytes.Equal(got, code) || err != nil {
		t.Errorf("%d bytes, %v; want the plugin's %d", len(got), err, len(code))
	}
}

func TestReproducible(t *testing.T) {
	t.Parallel()
	_, one, bom := made(t, options{})
	_, two, other := made(t, options{})
	if one != two {
		t.Errorf("two builds gave %s and %s", one, two)
	}
	if bom != other {
		t.Errorf("two builds gave\n%s and\n%s", bom, other)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/sluice:v1"
	_, want, _ := made(t, options{push: reference})
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); err != nil || got.String() != want {
		t.Errorf("pulled %s, %v; want that of the layout, %s", got, err, want)
	}
}

// TestSBOM: every module that the plugin imports, and none of the tests'.
func TestSBOM(t *testing.T) {
	t.Parallel()
	bom := new(cyclonedx.BOM)
	_, _, text := made(t, options{})
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, c := range *bom.Components {
		versions[c.Name] = c.Version
	}
	for _, module := range []string{"github.com/tidwall/gjson", "github.com/tetratelabs/proxy-wasm-go-sdk", "tinygo"} {
		if versions[module] == "" {
			t.Errorf("no version of %s in %v", module, versions)
		}
	}
	if _, ok := versions["github.com/redis/go-redis/v9"]; ok {
		t.Error("a module that only the tests use")
	}
}

func TestMissingPluginFails(t *testing.T) {
	t.Parallel()
	if err := run(options{wasm: filepath.Join(t.TempDir(), "absent")}); err == nil {
		t.Error("no error")
	}
}
