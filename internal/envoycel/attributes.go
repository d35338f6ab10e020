package envoycel

import (
	"maps"
	"slices"
	"strings"
)

// pseudo are the attributes of a request that are also headers
// (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/attributes).
var pseudo = map[string]string{
	":path": "path", ":method": "method", ":authority": "host", ":scheme": "scheme",
	"user-agent": "useragent", "referer": "referer", "x-request-id": "id",
}

// Request is the tree of attributes that a request's headers, names and values,
// make. Of a repeated header Envoy has one list.
func Request(headers [][2]string) map[string]any {
	values := map[string]any{}
	for _, h := range headers {
		if before, ok := values[h[0]].(string); ok {
			h[1] = before + "," + h[1]
		}
		values[h[0]] = h[1]
	}
	request := map[string]any{"headers": values}
	for name, attribute := range pseudo {
		if value, ok := values[name]; ok {
			request[attribute] = value
		}
	}
	if path, ok := values[":path"].(string); ok {
		request["url_path"], request["query"], _ = strings.Cut(path, "?")
	}
	return map[string]any{"request": request}
}

// Nested is the tree of one attribute, such as connection.id.
func Nested(path []string, value any) map[string]any {
	for _, name := range slices.Backward(path) {
		value = map[string]any{name: value}
	}
	return value.(map[string]any)
}

// Merge adds a tree to another, which it does not share.
func Merge(into, tree map[string]any) {
	for name, value := range tree {
		branch, ok1 := value.(map[string]any)
		old, ok2 := into[name].(map[string]any)
		switch {
		case ok1 && ok2:
			old = maps.Clone(old)
			Merge(old, branch)
			into[name] = old
		default:
			into[name] = value
		}
	}
}
