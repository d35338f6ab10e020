package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what is linked into the plugin, as CycloneDX 1.6 in JSON.
// https://cyclonedx.org/docs/1.6/json/
func writeSBOM(path, source string, code []byte, version string) error {
	components, err := components(source)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(code)
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, Name: "sluice.wasm", Version: version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}}
	bom.Components = &components
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// components are the modules that the plugin is built from, and what TinyGo
// links into it. TinyGo's and the C libraries' versions are those of the machine
// that builds.
func components(source string) ([]cyclonedx.Component, error) {
	work, err := filepath.Abs(filepath.Join(source, "tools", "plugin.work")) // GOWORK has to be absolute
	if err != nil {
		return nil, err
	}
	list := exec.Command("go", "list", "-deps", "-tags", "tinygo,custommalloc", "-json=Module", "./plugin")
	list.Dir = source
	list.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK="+work)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	tinygo, err := exec.Command("tinygo", "version").Output()
	if err != nil {
		return nil, fmt.Errorf("tinygo version: %w", err)
	}
	linked := []cyclonedx.Component{
		library("compiler-rt", "", ""),
		library("tinygo", strings.Fields(string(tinygo) + " ? ? ?")[2], "pkg:github/tinygo-org/tinygo"),
		library("wasi-libc", "", "pkg:github/WebAssembly/wasi-libc"),
	}
	modules, err := modules(out)
	return append(modules, linked...), err
}

// modules reads what "go list -json=Module" printed: an object for each package.
func modules(out []byte) ([]cyclonedx.Component, error) {
	var found []cyclonedx.Component
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				Path, Version string
				Main          bool
				Replace       *struct{ Path string } // by source of our own (tools/plugin.work)
			}
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Module != nil && !p.Module.Main && p.Module.Replace == nil {
			found = append(found, library(p.Module.Path, p.Module.Version, "pkg:golang/"+p.Module.Path))
		}
	}
	slices.SortFunc(found, func(a, b cyclonedx.Component) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(found, func(a, b cyclonedx.Component) bool { return a.Name == b.Name }), nil
}

// library is a component; its package URL, if it has one, is given without the
// version.
func library(name, version, purl string) cyclonedx.Component {
	if purl != "" && version != "" {
		purl += "@" + version
	}
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl, BOMRef: name,
	}
}
