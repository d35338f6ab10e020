// Package doctor tries whether a Redis and an Envoy fit a configuration of the plugin.
package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/advice"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/envoyfile"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Status is the result of a check.
type Status string

// The statuses. Fail says that limits cannot work so.
const (
	Pass Status = "pass"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Advice string `json:"advice"` // what to do; "" if there is nothing
}

// Report collects checks.
type Report struct {
	Checks []Check `json:"checks"`
}

// Add adds a check.
func (r *Report) Add(name string, status Status, advice, found string, args ...any) {
	r.Checks = append(r.Checks, Check{name, status, fmt.Sprintf(found, args...), advice})
}

// Warn adds warnings about the configuration.
func (r *Report) Warn(warnings []config.Mistake) {
	for _, w := range warnings {
		problem, advice := split(w.Problem)
		r.Add("configuration", Warn, advice, "%s: %s", w.Path, problem)
	}
}

// Redis is the server that is looked at.
type Redis struct {
	*Report
	Client  redis.UniversalClient
	Config  *config.Config
	Prefix  string            // of all keys
	Ahead   time.Duration     // of its clock
	Explain func(error) error // without secrets

	info map[string]string // nil where INFO is refused
}

// Look tries all that the configuration needs of Redis. It writes keys of its own and removes them.
func (s *Redis) Look(ctx context.Context) {
	if !s.server(ctx) {
		return
	}
	for _, try := range []func(context.Context){s.clock, s.rights, s.replay, s.keeps, s.latency} {
		if try(ctx); ctx.Err() != nil {
			s.Add("redis", Fail, "bring Redis nearer, or look what keeps it busy", "it is too slow: the rest was not tried")
			return
		}
	}
}

// key is a key of the doctor's own, with a hash tag.
func (s *Redis) key(tag, suffix string) string { return s.Prefix + ":{" + tag + "}" + suffix }

// newTag is a hash tag that no rule has: "|" would follow a rule's name.
func newTag() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return "sluice-doctor-" + hex.EncodeToString(random)
}

// node is one primary, and a hash tag whose keys it holds.
type node struct{ address, tag string }

// Command is "doctor".
func Command(c *console.Console) *cobra.Command {
	f, envoy := new(live.Flags), ""
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Try whether Redis and Envoy are what a configuration needs",
		Long: `Doctor tries what the configuration needs of this Redis, under keys of its own
that it removes: every algorithm's worked examples by the very scripts that Envoy
sends, the user's rights, the clock, memory, persistence, and how long a check
takes. With --envoy it looks at what that Envoy runs, whether its workers ask Redis
now, and where its cluster leads; that is what it tries, where --redis is left out.

Ask as Envoy's user, which is the configuration's unless --redis-user says
otherwise: it is its rights that matter. It exits with 1 if a check fails.`,
		Example: "  sluice doctor -c plugin.json --redis redis:6379 --envoy http://127.0.0.1:9901",
		Args:    cobra.NoArgs,
		RunE:    func(called *cobra.Command, _ []string) error { return diagnose(called.Context(), c, f, envoy) },
	}
	f.Add(c, command)
	command.Flags().StringVar(&envoy, "envoy", "", "Envoy's admin interface, such as http://127.0.0.1:9901")
	command.MarkFlagsOneRequired("redis", "envoy")
	return command
}

// patience is how long doctor takes at most. A check of a cluster of many nodes takes some 800 round
// trips.
//
// Bound: time of a run of sluice doctor. Beyond it, the rest is not tried, and the run fails.
// Protects whoever waits for it.
const patience = 2 * time.Minute

func diagnose(ctx context.Context, c *console.Console, f *live.Flags, admin string) error {
	l, err := f.Limiter(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	report := &Report{}
	report.Warn(advice.Warnings(l.Config))
	r := l.Config.Redis
	if r != nil && cmp.Or(f.PasswordEnv, r.PasswordEnv) != "" {
		name := cmp.Or(f.PasswordEnv, r.PasswordEnv)
		if _, ok := c.Environment(name); ok {
			report.Add("password", Pass, "", "the environment variable %s is set here", name)
		} else {
			report.Add("password", Fail, "set it here, and where Envoy starts: Envoy asks without a password otherwise",
				"the environment variable %s, which has Redis' password, is not set", name)
		}
	}
	typed, asks := len(f.Addresses) > 0, false
	if admin != "" {
		e := &envoy{Report: report, url: admin, timeout: f.Timeout, plugin: l.JSON, redis: f.Addresses}
		e.look(ctx)
		if asks = e.asks; e.found && !e.way.Relay && !typed {
			f.Addresses, f.Cluster, f.TLS = e.endpoints, e.way.RedisCluster, f.TLS || e.way.TLS
		}
	} else if r != nil && l.Found.Documents != nil { // else it is the configuration alone
		way := envoyfile.WayTo(l.Found, r.Cluster)
		if own := way.Addresses; !way.Relay && len(own) > 0 && !anyOf(ctx, f.Addresses, own) {
			report.Add("endpoints", Warn, "correct the cluster, or give --envoy to see where it leads",
				"the file's cluster %q leads to %s, not to --redis, %s", way.Cluster, strings.Join(own, ", "),
				strings.Join(f.Addresses, ", "))
		}
	}
	if len(f.Addresses) > 0 {
		client, err := f.Connect(ctx, c, l)
		switch {
		case err == nil:
			defer client.Close()
			(&Redis{
				Report: report, Client: client, Config: l.Config, Prefix: f.Prefix, Ahead: f.Ahead, Explain: f.Explain,
			}).Look(ctx)
		case !typed && asks:
			report.Add("redis", Warn, "try it from where Envoy runs, or give --redis", "%s; but Envoy's workers ask it", err)
		default:
			report.Add("redis", Fail, "look whether Redis runs, and at the address, the user and the password", "%s", err)
		}
	}
	rows := [][]string{{"CHECK", "STATUS", "FOUND"}}
	for _, c := range report.Checks {
		rows = append(rows, []string{c.Name, string(c.Status), c.Found})
		if c.Advice != "" {
			rows = append(rows, []string{"", "", "-> " + c.Advice})
		}
	}
	if err := c.Show(report, rows, ""); err != nil {
		return err
	}
	if slices.ContainsFunc(report.Checks, func(c Check) bool { return c.Status == Fail }) {
		return console.ErrShown
	}
	return nil
}
