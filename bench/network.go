package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// freePorts returns TCP ports of 127.0.0.1 on which nothing listens.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var config net.ListenConfig
	ports := make([]int, n)
	for i := range ports {
		l, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before the others have ports of their own
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// get returns what an HTTP server answers with 200.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(body), err
}

// accepts reports whether something listens on a port.
func accepts(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", addr(port))
		if err == nil {
			err = c.Close()
		}
		return err
	}
}
