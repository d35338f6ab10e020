package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/scenario"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// plain is a test that does nothing to Envoy or Redis that another would notice, and so shares both. One with
// a Redis of its own may harm that.
type plain struct {
	name     string
	config   string           // as a scenario's, a recipe with what to change in it, too
	stores   []scenario.Store // Redis alone unless set
	variants []string         // it is played for each; once, for "", unless set
	worker   bool             // it needs an Envoy of one worker
	// own starts a Redis of the test's own, and returns the address at which Envoy finds it.
	own func(t *testing.T, s *setting) (addr string)
	// edit changes the listener "limited", of which the test gets a copy.
	edit func(t *testing.T, c *envoyconf.Config, variant string)
	play func(t *testing.T, s *setting)
}

var (
	embedded   = []scenario.Store{scenario.Local}
	bothStores = []scenario.Store{scenario.Redis, scenario.Local}
)

var plainTests = []plain{
	absentPasswordVariable, accessLog, bodies, burstWaits, foreignKeys, headersOnAnswersOfEnvoy, internalRedirect,
	leasedUnitsBeforeRejections, leaversGiveTheirPlacesBack, longValues, manyNetworks, manyStreams,
	routeIsNotChosenAnew, routeName, settledOnce, settleLeavers, settlementsByResponse, shippedListener,
	slotsAreGivenBack, trustedHeaders,

	clientsWaitForRedis, contractOfClientsWhoLeave, contractThatChangesTwice,
	passwordFromEnvironment, repliesCutAtEachByte, settlementsWithoutRedis, slotsWhileRedisIsAway, turnItOff,
	unitsComeBack("of a size", `{"units": 100, "ttl": "1s"}`, 1000, 990),
	unitsComeBack("sharpened", `{"ttl": "1s"}`, 3000, 2970), wrongPassword,

	cookbookBytesOut, cookbookClaim, cookbookEconomyCluster, cookbookFailedLogins, cookbookFailures,
	cookbookLoginsBackstop, cookbookMCP, cookbookMCPEvasions, cookbookMCPEvasionsOfSettled, cookbookMCPSettled,
	cookbookStaticPage, cookbookWork,
}

// redisWith starts a Redis of a test's own with arguments.
func redisWith(args ...string) func(*testing.T, *setting) string {
	return func(t *testing.T, s *setting) string {
		t.Helper()
		s.redis = redistest.Start(t, args...)
		return s.redis.Addr
	}
}

// TestPlain plays the plain tests in two Envoys, of one worker and of two. For each variant and store a test has a
// listener with statistics of its own, an upstream, and a prefix in Redis.
func TestPlain(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		server, settings := redistest.Start(t), map[*setting]plain{}
		opts := envoytest.Options{Workers: workers, Redis: []string{server.Addr}}
		opts.Plugin = `{` + patient + `"rules": [{"name": "r", ` + hundred + `}]}`
		opts.Edit = func(c *envoyconf.Config) {
			limited := c.Get(envoyconf.Listener)
			for _, p := range plainTests {
				if p.worker != (workers == 1) {
					continue
				}
				for _, variant := range append(p.variants, "")[:max(1, len(p.variants))] {
					if p.edit != nil {
						p.edit(t, c, variant)
					}
					for _, store := range append(p.stores, scenario.Redis)[:max(1, len(p.stores))] {
						name := strings.Join(strings.Fields(fmt.Sprint(p.name, " ", variant, " ", store)), "-")
						config := scenario.New(t, name, store, p.config)
						s := &setting{
							upstream: envoytest.NewUpstream(t, nil), listener: name, prefix: config.Prefix + ":", variant: variant,
						}
						settings[s] = p
						text := config.JSON()
						if !strings.Contains(text, config.Prefix) {
							s.prefix = "rl:"
						}
						if strings.Contains(text, "envoy.filters.http.mcp") && isEnvoy136(t) {
							text = strings.ReplaceAll(text, "envoy.filters.http.mcp", "mcp_proxy")
						}
						switch {
						case p.own != nil:
							addr := p.own(t, s)
							if s.client == nil {
								s.client = s.redis.Client()
							}
							if envoytest.ThroughRelay {
								addr = envoytest.NewRelay(t, addr, nil).Addr
							}
							c.CopyCluster("redis", s.ownCluster(), addr)
							text = strings.Replace(text, `"cluster": "redis"`, fmt.Sprintf(`"cluster": %q`, s.ownCluster()), 1)
						case store == scenario.Redis:
							s.redis, s.client = server, server.Client()
						default:
							text = ownRules(t, name, text)
						}
						port := testenv.FreePort(t)
						s.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
						c.CopyListener(name, port, text)
						c.SetListenerUpstream(name, s.upstream.Addr)
					}
					c.Set(envoyconf.Listener, limited)
				}
			}
		}
		e := envoytest.Start(t, opts)
		for s, p := range settings {
			s.Envoy = e
			t.Run(s.listener, func(t *testing.T) {
				t.Parallel()
				p.play(t, s)
			})
		}
	}
}

// ownCluster is Envoy's name of the test's own Redis.
func (s *setting) ownCluster() string { return s.listener + "-own" }

// ownRules gives rules names that no other test has: those of the embedded store share its memory.
func ownRules(t *testing.T, prefix, text string) string {
	t.Helper()
	var config map[string]any
	testenv.OK(t, json.Unmarshal([]byte(text), &config))
	for _, rule := range config["rules"].([]any) {
		rule := rule.(map[string]any)
		rule["name"] = fmt.Sprint(prefix, "-", rule["name"])
	}
	own, err := json.Marshal(config)
	testenv.OK(t, err)
	return string(own)
}
