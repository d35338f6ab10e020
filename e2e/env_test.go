package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

var ctx = context.Background()

// TestMain gives the command line, built once, a place.
func TestMain(m *testing.M) {
	var err error
	if commands, err = os.MkdirTemp("", "sluice"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(commands)
	os.Exit(code)
}

var (
	commands string // folder of "sluice"
	build    = sync.OnceValues(func() ([]byte, error) {
		return exec.Command("go", "build", "-o", commands, "../cmd/sluice").CombinedOutput()
	})
)

// sluice is the path of the command line, which the first test that asks for it builds.
func sluice(t *testing.T) string {
	t.Helper()
	if out, err := build(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(commands, "sluice")
}

// patient is the part of a plugin configuration in which nothing fails by being
// slow, as a machine under test load may be, and what fails is seen as a 503.
const patient = `"redis": {"cluster": "redis", "timeout": "10s"}, "failure": {"mode": "deny"}, `

// long is a window in which next to nothing is restored while a test runs.
const long = `"window": "366d"`

// Limits and members of configurations that many tests have.
const (
	oneLimit      = `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1h"}]`
	hundred       = `"limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]`
	bothHeaders   = `"headers": ["x-ratelimit", "draft"], `
	limitedStatus = http.StatusTooManyRequests
)

// setting is one Envoy with a Redis and an upstream of its own.
type setting struct {
	*envoytest.Envoy

	URL      string // of one listener, the limited one unless stated
	listener string // its name
	prefix   string // of the keys in Redis
	variant  string // of a plain test
	redis    *redistest.Server
	client   *redis.Client
	wire     *wire // to Redis; nil: none
	upstream *envoytest.Upstream
}

// start runs Envoy with a plugin configuration. What opts leaves open is a
// direct connection to a Redis of its own, and an upstream that answers 200.
func start(t testing.TB, plugin string, opts envoytest.Options) *setting {
	t.Helper()
	s := &setting{listener: "limited", prefix: "rl:"}
	if opts.Redis == nil {
		s.redis = redistest.Start(t)
		s.client = s.redis.Client()
		opts.Redis = []string{s.redis.Addr}
	}
	if opts.Upstream == "" {
		s.upstream = envoytest.NewUpstream(t, nil)
		opts.Upstream = s.upstream.Addr
	}
	opts.Plugin = plugin
	s.Envoy = envoytest.Start(t, opts)
	s.URL = s.Envoy.URL
	return s
}

// blocks are the code blocks of a kind in a page, below a heading if one is given.
func blocks(t testing.TB, page, heading, kind string) (found []string) {
	t.Helper()
	text := string(testenv.File(t, page))
	if heading != "" {
		_, text, _ = strings.Cut(text, "\n## "+heading+"\n")
	}
	block := regexp.MustCompile("(?ms)^```" + kind + "\n(.*?)^```$")
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("%s has no %s under %q", page, kind, heading)
	}
	return found
}

// words are those of a command for Redis.
func words(command string) (list []any) {
	for word := range strings.FieldsSeq(command) {
		list = append(list, word)
	}
	return list
}

// keys returns the names of all its keys in Redis, sorted, but for those of some rules, and of probes,
// which vanish at once.
func (s *setting) keys(t testing.TB, without ...string) []string {
	t.Helper()
	return slices.DeleteFunc(redistest.Counters(t, s.client, s.prefix), func(key string) bool {
		return slices.ContainsFunc(without, func(rule string) bool { return strings.HasPrefix(key, s.prefix+"{"+rule+"|") })
	})
}

// snapshot returns every key with what it holds, for comparing, but for those of some rules. A bucket, which drains by
// itself, is when it will be empty: a charge that is given back leaves that as it was, though it is counted anew.
func (s *setting) snapshot(t testing.TB, without ...string) string {
	t.Helper()
	const bucket = 3 * 8 // lead, interval, and when the lead was counted: doubles, little endian
	var text strings.Builder
	for _, key := range s.keys(t, without...) {
		content, err := s.client.Dump(ctx, key).Result()
		testenv.OK(t, err)
		if value, err := s.client.Get(ctx, key).Bytes(); err == nil && len(value) == bucket {
			var b struct{ Lead, Interval, Counted float64 }
			testenv.OK(t, binary.Read(bytes.NewReader(value), binary.LittleEndian, &b))
			content = fmt.Sprintf("a bucket that is empty at %f us, with an interval of %f us", b.Counted+b.Lead, b.Interval)
		}
		fmt.Fprintf(&text, "%s=%s\n", key, content)
	}
	return text.String()
}

// awaitSnapshot returns when Redis holds what it has held before.
func (s *setting) awaitSnapshot(t testing.TB, before string, without ...string) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		if after := s.snapshot(t, without...); after != before {
			return fmt.Errorf("Redis held\n%q, and holds\n%q", before, after)
		}
		return nil
	})
}

// atLeast is an error if there are fewer than wanted.
func atLeast(got, want int, what string) error {
	if got < want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}

// algorithms are the ones that answer at once, each with its variants. An
// anchored window could end during the test: once in 366 days.
var algorithms = map[string]string{
	"fixed_window":              `"algorithm": "fixed_window"`,
	"fixed_window_first":        `"algorithm": "fixed_window", "anchor": "first_request"`,
	"sliding_window_log":        `"algorithm": "sliding_window_log"`,
	"sliding_window_counter":    `"algorithm": "sliding_window_counter"`,
	"sliding_window_counter_60": `"algorithm": "sliding_window_counter", "sub_windows": 60`,
	"token_bucket":              `"algorithm": "token_bucket"`,
	"leaky_bucket":              `"algorithm": "leaky_bucket"`,
	"gcra":                      `"algorithm": "gcra"`,
}

// exactLimit is the limit of most rules of upgradeRules.
const exactLimit = 150
