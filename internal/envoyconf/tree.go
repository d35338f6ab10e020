// Package envoyconf changes a copy of an Envoy configuration made like the
// shipped envoy.yaml: other ports, another plugin configuration, Redis through
// redis_proxy. The tests and the demo run Envoy with such copies, so that
// what they prove holds for the file that users get.
package envoyconf

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Config is an Envoy configuration as a tree. Its methods keep the first error
// for YAML to report.
type Config struct{ *yamltree.Tree }

// Read reads a file.
func Read(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse reads YAML.
func Parse(text []byte) (*Config, error) {
	tree, err := yamltree.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("envoyconf: %w", err)
	}
	return &Config{tree}, nil
}

// YAML returns the configuration as text, or the first error of the changes.
func (c *Config) YAML() ([]byte, error) { return yamltree.Write(c.Tree) }

// Fragment parses a piece of YAML, a value for Set or Append.
func (c *Config) Fragment(text string) (value any) {
	c.keep("fragment", c.Tree.Fragment(text).Decode(&value))
	return value
}

// Get returns the value at a path.
func (c *Config) Get(path string) (value any) {
	c.keep(path, c.At(path).Decode(&value))
	return value
}

// Set replaces the value at a path, or adds a key to the map that the path's
// last step names.
func (c *Config) Set(path string, value any) {
	parent, step := c.parent(path)
	switch i := yamltree.Index(parent, step); {
	case parent.Kind == yaml.MappingNode:
		yamltree.Put(parent, step, c.node(path, value))
	case i >= 0:
		parent.Content[i] = c.node(path, value)
	default:
		c.fail("no %s", path)
	}
}

// Delete removes a key from a map.
func (c *Config) Delete(path string) {
	if parent, step := c.parent(path); !yamltree.Drop(parent, step) {
		c.fail("no %s", path)
	}
}

// parent returns the node above a path's last step, and that step.
func (c *Config) parent(path string) (*yaml.Node, string) {
	i := strings.LastIndexByte(path, '/')
	return c.At(path[:max(i, 0)]), path[i+1:]
}

// Append adds a value to the list at a path.
func (c *Config) Append(path string, value any) {
	list := c.At(path)
	if list.Kind != yaml.SequenceNode {
		c.fail("%s is not a list", path)
		return
	}
	list.Content = append(list.Content, c.node(path, value))
}

// Remove takes the element of that name out of the list at a path.
func (c *Config) Remove(path, name string) {
	list := c.At(path)
	if i := yamltree.Index(list, name); i >= 0 {
		list.Content = append(list.Content[:i:i], list.Content[i+1:]...)
		return
	}
	c.fail("%s: no element %q", path, name)
}

// node is a value as a node, for a path.
func (c *Config) node(path string, value any) *yaml.Node {
	n := new(yaml.Node)
	c.keep(path, n.Encode(value))
	return n
}

func (c *Config) keep(path string, err error) {
	if err != nil {
		c.fail("%s: %w", path, err)
	}
}

func (c *Config) fail(format string, args ...any) { c.Fail("envoyconf: "+format, args...) }
