package main

import (
	"archive/tar"
	"bytes"
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

// made runs the command for a plugin and returns the directory of its files.
func made(t *testing.T, o options) string {
	t.Helper()
	dir := t.TempDir()
	o.wasm, o.version = filepath.Join(dir, "sluice.wasm"), "v1"
	o.layout, o.sbom, o.source = filepath.Join(dir, "image"), filepath.Join(dir, "sbom"), "../.."
	if err := os.WriteFile(o.wasm, code, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces what the first wrote
		if err := run(o); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// stored is the image of a layout, which has one.
func stored(t *testing.T, dir string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "image"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%d images, %v; want 1", len(manifest.Manifests), err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digest(t *testing.T, image v1.Image) string {
	t.Helper()
	d, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestImage(t *testing.T) {
	t.Parallel()
	image := stored(t, made(t, options{}))
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
	one, two := made(t, options{}), made(t, options{})
	if a, b := digest(t, stored(t, one)), digest(t, stored(t, two)); a != b {
		t.Errorf("two builds gave %s and %s", a, b)
	}
	if a, b := read(t, one, "sbom"), read(t, two, "sbom"); a != b {
		t.Errorf("two builds gave\n%s and\n%s", a, b)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/sluice:v1"
	dir := made(t, options{push: reference})
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digest(t, pulled), digest(t, stored(t, dir)); got != want {
		t.Errorf("pulled %s, want that of the layout, %s", got, want)
	}
}

// TestSBOM: every module that the plugin imports, and none of the tests'.
func TestSBOM(t *testing.T) {
	t.Parallel()
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(read(t, made(t, options{}), "sbom")),
		cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
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

func read(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
