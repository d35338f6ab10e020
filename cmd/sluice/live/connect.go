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

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Connect opens the connection to Redis that flags and configuration describe, and tries it.
func (f *Flags) Connect(ctx context.Context, c *console.Console, l *input.Limiter) (redis.UniversalClient, error) {
	settings := &redis.UniversalOptions{
		Addrs:       f.Addresses,
		DialTimeout: f.Timeout, ReadTimeout: f.Timeout, WriteTimeout: f.Timeout,
		MaxRetries: 1, DisableIdentity: true, // CLIENT SETINFO, which the plugin's user may not
		Protocol: 2, ContextTimeoutEnabled: true,
	}
	f.Prefix = config.DefaultKeyPrefix
	if r := l.Config.Redis; r != nil {
		f.Prefix = r.KeyPrefix
		f.password, settings.DB = r.Password, int(r.Database)
		f.user = cmp.Or(f.user, r.Username)
		if f.password == "" {
			f.PasswordEnv = cmp.Or(f.PasswordEnv, r.PasswordEnv)
		}
	}
	if f.PasswordEnv != "" {
		password, ok := c.Environment(f.PasswordEnv)
		if !ok { // as the plugin does
			c.Warn("note: the environment variable %s, which has Redis' password, is not set: Redis is asked without one\n",
				f.PasswordEnv)
		}
		f.password = strings.TrimRight(password, "\r\n")
	}
	if f.password != "" {
		settings.Username, settings.Password = f.user, f.password
	}
	if f.TLS {
		settings.TLSConfig = &tls.Config{ServerName: f.serverName, MinVersion: tls.VersionTLS12}
	}
	if f.TLS && f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, console.Redis(err)
		}
		settings.TLSConfig.RootCAs = x509.NewCertPool()
		if !settings.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, console.Redis(fmt.Errorf("%s has no certificate (want PEM)", f.ca))
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
	var client redis.UniversalClient = redis.NewClient(settings.Simple())
	if f.Cluster {
		client = redis.NewClusterClient(settings.Cluster())
	}
	now, err := client.Time(ctx).Result()
	if err != nil {
		client.Close()
		return nil, console.Redis(f.Explain(err))
	}
	f.ahead = time.Until(now)
	return client, nil
}

// nowMicros is the time of Redis, which may be far from this machine's.
func (f *Flags) nowMicros() int64 { return time.Now().Add(f.ahead).UnixMicro() }

// silent are signs that the server said nothing that makes sense.
var silent = []string{"EOF", "connection reset", "deadline exceeded", "i/o timeout", "TLS handshake"}

// Explain says what an error of Redis means, and never a password.
func (f *Flags) Explain(err error) error {
	text := err.Error()
	if f.password != "" {
		text = strings.ReplaceAll(text, f.password, "(password)")
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
	case f.TLS:
		hint = "perhaps it does not speak TLS: leave out --redis-tls"
	default:
		hint = "perhaps it speaks TLS: add --redis-tls"
	}
	if hint != "" {
		text += " (" + hint + ")"
	}
	return fmt.Errorf("redis %s: %s", strings.Join(f.Addresses, ", "), text)
}

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
		for outcome := redisresp.Complete; outcome == redisresp.Complete; {
			_, n, outcome = c.decoder.Decode(c.got[c.whole:])
			if outcome == redisresp.Malformed {
				return 0, fmt.Errorf("it does not answer as Redis does: %w", c.decoder.Err())
			}
			c.whole += n
		}
		if err != nil && c.whole == 0 {
			return 0, err
		}
	}
	n := copy(p, c.got[:c.whole])
	c.got, c.whole = c.got[n:], c.whole-n
	return n, nil
}
