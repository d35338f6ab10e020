package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Ports are taken from [lowPort, lowPort+portCount): below the range from which
// Linux takes the local port of an outgoing connection, as a port is free for a
// while before its server listens.
const (
	lowPort   = 22000
	portCount = 10000
)

// freePorts returns TCP ports of 127.0.0.1 on which nothing listens, each of them
// once.
func (b *bench) freePorts(ctx context.Context, n int) ([]int, error) {
	var config net.ListenConfig
	var ports []int
	for range portCount {
		if len(ports) == n {
			return ports, nil
		}
		port := lowPort + b.nextPort%portCount
		b.nextPort++
		l, err := config.Listen(ctx, "tcp4", addr(port))
		if err != nil {
			continue // taken
		}
		l.Close()
		ports = append(ports, port)
	}
	return nil, errors.New("no TCP port of 127.0.0.1 is free")
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
