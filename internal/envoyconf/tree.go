// Package envoyconf changes a copy of an Envoy configuration made like the
// shipped envoy.yaml: other ports, another plugin configuration, Redis through
// redis_proxy. The tests and the demo run Envoy with such copies, so that
// what they prove holds for the file that users get.
package envoyconf

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config is an Envoy configuration as a tree. Its methods keep the first error
// for YAML to report.
type Config struct {
	root any
	err  error
}

// Parse reads YAML.
func Parse(text []byte) (*Config, error) {
	c := new(Config)
	if err := yaml.Unmarshal(text, &c.root); err != nil {
		return nil, fmt.Errorf("envoyconf: %w", err)
	}
	return c, nil
}

// YAML returns the configuration as text, or the first error of the changes.
func (c *Config) YAML() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	return yaml.Marshal(c.root)
}

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
// lists the element's "name" or its index.
func (c *Config) Get(path string) any {
	value := c.root
	for _, step := range strings.Split(path, "/") {
		next, err := child(value, step)
		if err != nil {
			c.fail("%s: %w", path, err)
			return nil
		}
		value = next
	}
	return value
}

// Set replaces the value at a path, or adds a key to the map that the path's
// last step names.
func (c *Config) Set(path string, value any) {
	c.change(path, func(parent any, step string) error {
		if m, ok := parent.(map[string]any); ok {
			m[step] = value
			return nil
		}
		list, i, err := element(parent, step)
		if err == nil {
			list[i] = value
		}
		return err
	})
}

// Delete removes a key from a map.
func (c *Config) Delete(path string) {
	c.change(path, func(parent any, step string) error {
		m, ok := parent.(map[string]any)
		if !ok {
			return fmt.Errorf("%q is not in a map", step)
		}
		if _, ok := m[step]; !ok {
			return fmt.Errorf("no %q", step)
		}
		delete(m, step)
		return nil
	})
}

// Append adds a value to the list at a path.
func (c *Config) Append(path string, value any) {
	list, ok := c.Get(path).([]any)
	if !ok {
		c.fail("%s is not a list", path)
		return
	}
	c.Set(path, append(list, value))
}

// Remove takes the element of that name out of the list at a path.
func (c *Config) Remove(path, name string) {
	list, i, err := element(c.Get(path), name)
	if err != nil {
		c.fail("%s: %w", path, err)
		return
	}
	c.Set(path, append(list[:i:i], list[i+1:]...))
}

// change calls edit with the parent of a path and the path's last step.
func (c *Config) change(path string, edit func(parent any, step string) error) {
	parent, step := c.root, path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parent, step = c.Get(path[:i]), path[i+1:]
	}
	if err := edit(parent, step); err != nil {
		c.fail("%s: %w", path, err)
	}
}

func (c *Config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("envoyconf: "+format, args...)
	}
}

// child is one step from a value downwards.
func child(value any, step string) (any, error) {
	if m, ok := value.(map[string]any); ok {
		if v, ok := m[step]; ok {
			return v, nil
		}
		return nil, fmt.Errorf("no %q", step)
	}
	list, i, err := element(value, step)
	if err != nil {
		return nil, err
	}
	return list[i], nil
}

// element finds an element of a list by name or by index.
func element(value any, step string) (list []any, index int, err error) {
	list, ok := value.([]any)
	if !ok {
		return nil, 0, fmt.Errorf("no %q", step)
	}
	for i, e := range list {
		if m, ok := e.(map[string]any); ok && m["name"] == step {
			return list, i, nil
		}
	}
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i >= len(list) {
		return nil, 0, fmt.Errorf("no element %q", step)
	}
	return list, i, nil
}
