package live

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/redisresp"
)

// Options are how Redis is reached.
type Options struct {
	Addresses       []string
	Cluster         bool
	TLS             bool
	CA              string // file; empty: the system's authorities
	ServerName      string // empty: the address' host
	User, Password  string
	Database        int
	Timeout         time.Duration
	Prefix          string        // of all keys
	PauseOfScan     time.Duration // between its steps
	KeysInAScanStep int64         // 0: 1000
}

// Client is a connection to Redis.
type Client struct {
	redis   redis.UniversalClient
	options Options
}

// Connect opens a connection, and tries it.
func Connect(ctx context.Context, o Options) (*Client, error) {
	settings := &redis.UniversalOptions{
		Addrs:    o.Addresses,
		Username: o.User, Password: o.Password, DB: o.Database,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
		MaxRetries: 1, DisableIdentity: true, // CLIENT SETINFO, which the plugin's user may not
		Protocol: 2, ContextTimeoutEnabled: true,
	}
	if o.TLS {
		settings.TLSConfig = &tls.Config{ServerName: o.ServerName, MinVersion: tls.VersionTLS12}
	}
	if o.TLS && o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		settings.TLSConfig.RootCAs = x509.NewCertPool()
		if !settings.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate (want PEM)", o.CA)
		}
	}
	dial := redis.NewDialer(&redis.Options{DialTimeout: settings.DialTimeout, TLSConfig: settings.TLSConfig})
	settings.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &connection{Conn: conn, decoder: redisresp.NewDecoder(replyLimits)}, nil
	}
	o.KeysInAScanStep = cmp.Or(o.KeysInAScanStep, 1000)
	c := &Client{options: o}
	if o.Cluster {
		c.redis = redis.NewClusterClient(settings.Cluster())
	} else {
		c.redis = redis.NewClient(settings.Simple())
	}
	if err := c.redis.Time(ctx).Err(); err != nil {
		c.Close()
		return nil, o.explain(err)
	}
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() { _ = c.redis.Close() }

// silent are signs that the server said nothing that makes sense.
var silent = []string{"EOF", "connection reset", "deadline exceeded", "i/o timeout", "TLS handshake"}

// explain says what an error of Redis means, and never a password.
func (o *Options) explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if o.Password != "" {
		text = strings.ReplaceAll(text, o.Password, "(password)")
	}
	hint := ""
	switch {
	case strings.HasPrefix(text, "MOVED"), strings.Contains(text, "CROSSSLOT"):
		hint = "this is a node of a Redis Cluster: add --redis-cluster"
	case strings.Contains(text, "cluster support disabled"):
		hint = "this is not a Redis Cluster: leave out --redis-cluster"
	case strings.HasPrefix(text, "NOAUTH"):
		hint = "it wants a password: name the environment variable that has it, --redis-password-env"
	case strings.HasPrefix(text, "WRONGPASS"):
		hint = "look at --redis-user, and at the environment variable with the password"
	case strings.HasPrefix(text, "NOPERM"):
		hint = "this user may not, as Envoy's may not: docs/cli.md, under Flags, has the line for a user of the command's " +
			"own, --redis-user"
	case !slices.ContainsFunc(silent, func(sign string) bool { return strings.Contains(text, sign) }):
	case o.TLS:
		hint = "perhaps it does not speak TLS: leave out --redis-tls"
	default:
		hint = "perhaps it speaks TLS: add --redis-tls"
	}
	if hint != "" {
		text += " (" + hint + ")"
	}
	return fmt.Errorf("redis %s: %s", strings.Join(o.Addresses, ", "), text)
}

// Redis is the connection itself.
func (c *Client) Redis() redis.UniversalClient { return c.redis }

// Say explains an error, and never shows a password.
func (c *Client) Say(err error) string { return c.options.explain(err).Error() }

// replyLimits bound what a server may have the command keep: go-redis allocates whatever length or
// count it is told.
//
// Bound: bytes, elements and depth of a reply to the command line. Beyond it, the connection fails.
// Protects memory.
var replyLimits = redisresp.Limits{Bytes: 32 << 20, Elements: 1 << 20, Depth: 16}

// connection holds bytes back until they are a whole reply.
type connection struct {
	net.Conn

	decoder *redisresp.Decoder
	got     []byte
	whole   int // how many of them are whole replies
}

// Read implements io.Reader.
func (c *connection) Read(p []byte) (int, error) {
	for c.whole == 0 {
		var more [16 << 10]byte
		n, err := c.Conn.Read(more[:])
		c.got = append(c.got, more[:n]...)
		if err := c.take(); err != nil {
			return 0, err
		}
		if err != nil && c.whole == 0 {
			return 0, err
		}
	}
	n := copy(p, c.got[:c.whole])
	c.got, c.whole = c.got[n:], c.whole-n
	return n, nil
}

// take finds the whole replies.
func (c *connection) take() error {
	for {
		_, n, outcome := c.decoder.Decode(c.got[c.whole:])
		switch outcome {
		case redisresp.Malformed:
			return fmt.Errorf("it does not answer as Redis does: %w", c.decoder.Err())
		case redisresp.Incomplete:
			return nil
		}
		c.whole += n
	}
}
