package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// probeLimit bounds one question to a server.
const probeLimit = time.Second

// RedisArgs are those of a redis-server on a port of loopback that keeps nothing on disk.
func RedisArgs(dir string, port int) []string {
	return []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}
}

// PingRedis reports whether a Redis takes commands: it does when it answers PONG,
// or asks for a password first. While loading it answers with another error.
func PingRedis(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") {
		return nil
	}
	return fmt.Errorf("%s answered PING with %q", addr, line)
}

// EnvoyReady reports whether the Envoy with an admin interface at addr serves.
// https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--ready
func EnvoyReady(ctx context.Context, addr string) error {
	return AnswersOK(ctx, "http://"+addr+"/ready")
}

// AnswersOK returns nil if a URL is answered with 200, or why not.
func AnswersOK(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
