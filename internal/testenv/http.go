package testenv

import (
	"io"
	"net/http"
	"strings"
)

// Send sends a request with fields such as "x-api-key: acme", and returns its answer and its text once it has ended.
func Send(method, url, body string, fields ...string) (*http.Response, string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if req.Header.Set(name, value); name == "host" { // Go sends this one, and no field of the name
			req.Host = value
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, string(answer), err
}
