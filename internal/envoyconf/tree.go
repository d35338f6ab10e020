// Package envoyconf changes a copy of an Envoy configuration made like the
// shipped envoy.yaml: other ports, another plugin configuration, Redis through
// redis_proxy. The tests and the demo run Envoy with such copies, so that
// what they prove holds for the file that users get.
package envoyconf

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Config is an Envoy configuration as a tree. Its methods keep the first error
// for YAML to report.
type Config struct{ tree *yamltree.Tree }

// Parse reads YAML.
func Parse(text []byte) (*Config, error) {
	tree, err := yamltree.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("envoyconf: %w", err)
	}
	return &Config{tree}, nil
}

// YAML returns the configuration as text, or the first error of the changes.
func (c *Config) YAML() ([]byte, error) { return yamltree.Write(c.tree) }

// Fragment parses a piece of YAML, a value for Set or Append.
func (c *Config) Fragment(text string) any {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		c.fail("fragment: %w", err)
	}
	return value
}

// Get returns the value at a path, such as
// "static_resources/listeners/limited/address": the keys of maps, and for
// lists the element's "name" or its index; "" is the whole.
func (c *Config) Get(path string) (value any) {
	if n := c.at(path); n != nil {
		c.keep(path, n.Decode(&value))
	}
	return value
}

// at is the node at a path, "" being the whole.
func (c *Config) at(path string) *yaml.Node {
	n := c.tree.Root
	for step := range strings.SplitSeq(path, "/") {
		if path == "" {
			break
		}
		next := yamltree.Child(n, step)
		if next == nil {
			c.missing(path, n, step)
			return nil
		}
		n = next
	}
	return n
}

func (c *Config) missing(path string, n *yaml.Node, step string) {
	if n.Kind == yaml.SequenceNode {
		c.fail("%s: no element %q", path, step)
	} else {
		c.fail("%s: no %q", path, step)
	}
}

// Set replaces the value at a path, or adds a key to the map that the path's
// last step names.
func (c *Config) Set(path string, value any) {
	parent, step := c.parent(path)
	if parent == nil {
		return
	}
	var n yaml.Node
	c.keep(path, n.Encode(value))
	switch i := yamltree.Index(parent, step); {
	case parent.Kind == yaml.MappingNode:
		yamltree.Put(parent, step, &n)
	case i >= 0:
		parent.Content[i] = &n
	default:
		c.missing(path, parent, step)
	}
}

// Delete removes a key from a map.
func (c *Config) Delete(path string) {
	if parent, step := c.parent(path); parent != nil && !yamltree.Drop(parent, step) {
		c.missing(path, parent, step)
	}
}

// parent returns the node above a path's last step, and that step.
func (c *Config) parent(path string) (*yaml.Node, string) {
	i := strings.LastIndexByte(path, '/')
	return c.at(path[:max(i, 0)]), path[i+1:]
}

// Append adds a value to the list at a path.
func (c *Config) Append(path string, value any) {
	list := c.at(path)
	if list == nil || list.Kind != yaml.SequenceNode {
		c.fail("%s is not a list", path)
		return
	}
	var n yaml.Node
	c.keep(path, n.Encode(value))
	list.Content = append(list.Content, &n)
}

// Remove takes the element of that name out of the list at a path.
func (c *Config) Remove(path, name string) {
	list := c.at(path)
	i := yamltree.Index(list, name)
	if i < 0 {
		c.fail("%s: no element %q", path, name)
		return
	}
	list.Content = append(list.Content[:i:i], list.Content[i+1:]...)
}

func (c *Config) keep(path string, err error) {
	if err != nil {
		c.fail("%s: %w", path, err)
	}
}

func (c *Config) fail(format string, args ...any) { c.tree.Fail("envoyconf: "+format, args...) }
