package render

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// text is a string, quoted where it has to be.
func text(value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if !plain(value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func number(value int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)}
}
