package live

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/internal/yamltree"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/redisresp"
)

// settable are the flags that the environment and the file of settings may set: how Redis and Envoy
// are reached, and with which configuration.
var settable = []string{
	"config", "redis", "redis-cluster", "redis-tls", "redis-ca", "redis-server-name", "redis-user", "redis-password-env",
	"timeout", "envoy",
}

// FromEnvironment gives flags that are not on the command line the values that the environment has for
// them, SLUICE_REDIS for --redis, else those of the file of settings.
func FromEnvironment(c *console.Console) func(called *cobra.Command, _ []string) error {
	return func(called *cobra.Command, _ []string) error {
		file, values, err := settings(c)
		if err != nil {
			return console.Misuse(err)
		}
		for _, flag := range settable {
			f := called.Flags().Lookup(flag)
			if f == nil || f.Changed {
				continue
			}
			from := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
			value, _ := c.Environment(from)
			if value == "" {
				value, from = values[flag], file
			}
			if value == "" {
				continue
			}
			if err := called.Flags().Set(flag, value); err != nil {
				return console.Usage("%s: %w", from, err)
			}
		}
		return nil
	}
}

// settings reads the file of settings, names of flags and their values: $SLUICE_SETTINGS, or sluice.yaml among
// the user's configuration (https://specifications.freedesktop.org/basedir-spec/latest/). It need not exist.
func settings(c *console.Console) (name string, values map[string]string, err error) {
	name, _ = c.Environment("SLUICE_SETTINGS")
	wanted := name != ""
	if !wanted {
		dir, _ := c.Environment("XDG_CONFIG_HOME")
		if home, _ := c.Environment("HOME"); dir == "" && home != "" {
			dir = filepath.Join(home, ".config")
		}
		if dir == "" {
			return "", nil, nil
		}
		name = filepath.Join(dir, "sluice.yaml")
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !wanted {
		return name, nil, nil
	}
	if err != nil {
		return name, nil, err
	}
	values = map[string]string{}
	for root, err := range yamltree.Documents(text) {
		if err != nil {
			return name, nil, fmt.Errorf("%s: %w", name, err)
		}
		if root.Kind != yaml.MappingNode {
			return name, nil, fmt.Errorf("%s: want names of flags and their values, such as redis: redis.example.com:6379", name)
		}
		for key, value := range yamltree.Fields(root) {
			switch {
			case !slices.Contains(settable, key.Value):
				return name, nil, fmt.Errorf("%s: line %d: %q is not a setting (want one of %s)", name, key.Line, key.Value,
					strings.Join(settable, ", "))
			case value.Kind == yaml.SequenceNode && key.Value == "redis":
				for _, n := range value.Content {
					values["redis"] = strings.TrimPrefix(values["redis"]+","+n.Value, ",")
				}
			case value.Kind != yaml.ScalarNode:
				return name, nil, fmt.Errorf("%s: line %d: %s is not a text", name, value.Line, key.Value)
			default:
				values[key.Value] = value.Value
			}
		}
		break // the first document has all
	}
	return name, values, nil
}

// Connect opens the connection to Redis that flags and configuration describe, and tries it.
func (f *Flags) Connect(ctx context.Context, c *console.Console, l *input.Limiter) (redis.UniversalClient, error) {
	logging.Disable() // go-redis writes to stderr by itself, with what a Redis said as it came
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
	f.Ahead = time.Until(now)
	return client, nil
}

// nowMicros is the time of Redis, which may be far from this machine's.
func (f *Flags) nowMicros() int64 { return time.Now().Add(f.Ahead).UnixMicro() }

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
