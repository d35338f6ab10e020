package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	wire "github.com/sluiceproxy/sluice/plugin/redis"
)

// TestScripts runs the command lines of testdata/script, and holds what they print. GOLDEN=1 writes it anew.
//
//	sluice ARG...            runs a command line that is to end well; with "<FILE" at its end it reads that file
//	refused, misused, noredis  the same for the other exit codes
//	about ARG...             is sluice where times differ from run to run: they are T, and columns have no width
//	says TEXT...             holds that these texts, no patterns, are in what the last command line printed
//	redis [FLAG...]          starts a Redis, which commands ask from here on
//	redis-cluster            starts a Redis Cluster, of which $NODE is one
//	redis-cli ARG...         runs a command of Redis
//	charge FILE RULE COST URL [HEADER...]  has the plugin's own script charge a request
//	acl PREFIX               makes the user that docs/operations.md gives Envoy, for a prefix, who may not run INFO
//	empty                    holds that no key is left in Redis
//	customers FILE           writes an access log of a thousand customers
//	page CODE HEADING [PATTERN...]  runs the first command after a heading of docs/cli.md, which is to end with an
//	                         exit code and to print what the page has, but for matches of patterns; with these,
//	                         columns have no width
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: testenv.Renewing(), RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SLUICE_CONFIG", "plugin.json")
			e.Setenv("ROOT", testenv.Root(t))
			e.Setenv("ESC", "\x1b")
			e.Values["world"] = &world{t: e.T().(testing.TB)}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sluice": commandLine(console.Done), "refused": commandLine(console.Refused),
			"misused": commandLine(console.Misused), "noredis": commandLine(console.NoRedis),
			"about": func(ts *testscript.TestScript, neg bool, args []string) {
				var out strings.Builder
				runIn(ts, console.Done, args, &out, ts.Stderr())
				fmt.Fprint(ts.Stdout(), steady(out.String(), aTime))
			},
			"says": func(ts *testscript.TestScript, neg bool, args []string) {
				printed := ts.ReadFile("stdout") + ts.ReadFile("stderr")
				for _, text := range args {
					if strings.Contains(printed, text) == neg {
						ts.Fatalf("%q is there: %t", text, neg)
					}
				}
			},
			"redis": func(ts *testscript.TestScript, _ bool, args []string) {
				w := ts.Value("world").(*world)
				server := redistest.Start(w.t, args...)
				w.client = server.Client()
				host, port, _ := strings.Cut(server.Addr, ":")
				ts.Setenv("HOST", host)
				ts.Setenv("PORT", port)
				ts.Setenv("REDIS", server.Addr)
				ts.Setenv("SLUICE_REDIS", server.Addr)
			},
			"redis-cluster": func(ts *testscript.TestScript, _ bool, _ []string) {
				w := ts.Value("world").(*world)
				cluster := redistest.StartCluster(w.t, 3)
				w.client = cluster.Client()
				ts.Setenv("NODE", cluster.Addrs()[0])
				ts.Setenv("SLUICE_REDIS", strings.Join(cluster.Addrs(), ","))
			},
			"redis-cli": func(ts *testscript.TestScript, _ bool, args []string) {
				words := make([]any, len(args))
				for i, arg := range args {
					words[i] = arg
				}
				reply, err := ts.Value("world").(*world).client.Do(context.Background(), words...).Result()
				ts.Check(err)
				list, ok := reply.([]any)
				if !ok {
					list = []any{reply}
				}
				for _, element := range list {
					fmt.Fprintln(ts.Stdout(), element)
				}
			},
			"charge": func(ts *testscript.TestScript, _ bool, args []string) {
				w := ts.Value("world").(*world)
				charge(w.t, w.client, ts.ReadFile(args[0]), args[1], args[2], args[3:])
			},
			"acl": func(ts *testscript.TestScript, _ bool, args []string) {
				w := ts.Value("world").(*world)
				_, line, _ := strings.Cut(string(testenv.File(w.t, "docs/operations.md")), "ACL SETUSER sluice on >PASSWORD ")
				line, _, _ = strings.Cut(line, "\n")
				line = strings.NewReplacer("~rl:", "~"+args[0]+":", "+info ", "").Replace(line)
				command := []any{"ACL", "SETUSER", "sluice", "on", ">secret"}
				for word := range strings.FieldsSeq(line) {
					command = append(command, word)
				}
				ts.Check(w.client.Do(context.Background(), command...).Err())
			},
			"empty": func(ts *testscript.TestScript, _ bool, _ []string) {
				if n := ts.Value("world").(*world).client.DBSize(context.Background()).Val(); n != 0 {
					ts.Fatalf("%d keys are left", n)
				}
			},
			"customers": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(accessLog()), 0o600))
			},
			"page": runPage,
		},
	})
}

// steady is a text with T in place of what differs from run to run, and with columns of no width.
func steady(text string, differs ...*regexp.Regexp) string {
	for _, d := range differs {
		text = d.ReplaceAllString(text, "T")
	}
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

// aTime is one that tables show.
var aTime = regexp.MustCompile(`\b(\d+h)?(\d+m)?(\d+(\.\d+)?s|\dh|\dm|[1-9]\d* ms)\b|\b\d+h(\d+m)?\b|\b\d+m\b`)

// world is what a script has started.
type world struct {
	t      testing.TB
	client redis.UniversalClient
}

func commandLine(code int) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		runIn(ts, code, args, ts.Stdout(), ts.Stderr())
	}
}

// runIn runs a command line in the folder and the environment of a script.
func runIn(ts *testscript.TestScript, want int, args []string, out, errors io.Writer) {
	c := &console.Console{
		In: strings.NewReader(""), Out: out, Errors: errors, Dir: ts.MkAbs("."),
		Environment: func(name string) (string, bool) { value := ts.Getenv(name); return value, value != "" },
	}
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "<"); ok {
			c.In = strings.NewReader(ts.ReadFile(file))
			args = append(args[:i:i], args[i+1:]...)
			break
		}
	}
	if code := run(c, args); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func runPage(ts *testscript.TestScript, _ bool, args []string) {
	page := ts.ReadFile(filepath.Join(ts.Getenv("ROOT"), "docs/cli.md"))
	found := regexp.MustCompile("(?s)\n" + regexp.QuoteMeta(args[1]) +
		"\n.*?```sh\nsluice (.*?[^\\\\])\n.*?```text\n(.*?)```").FindStringSubmatch(page)
	if found == nil {
		ts.Fatalf("docs/cli.md has no example after %q", args[1])
	}
	command := strings.NewReplacer("\\\n", "", "redis:6379", ts.Getenv("REDIS")).Replace(found[1])
	var words []string
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1) {
		words = append(words, strings.Trim(word, "'"))
	}
	var out strings.Builder
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	runIn(ts, code, words, &out, &out)
	fmt.Fprint(ts.Stdout(), out.String())
	got, want := out.String(), found[2]
	if patterns := args[2:]; len(patterns) > 0 {
		var differs []*regexp.Regexp
		for _, pattern := range patterns {
			differs = append(differs, regexp.MustCompile(pattern))
		}
		got, want = steady(got, differs...), steady(want, differs...)
	}
	if got != want {
		ts.Fatalf("%q prints\n%s\nthe page has\n%s", words, got, want)
	}
}

// charge has the plugin's own script charge a request that a rule applies to. Of an override it is told the text, and
// no size.
func charge(t testing.TB, client redis.Cmdable, plugin, name, cost string, request []string) {
	t.Helper()
	cfg, err := input.Load([]byte(plugin))
	testenv.OK(t, err)
	req, err := explain.NewRequest("GET", request[0])
	testenv.OK(t, err)
	for _, h := range request[1:] {
		testenv.OK(t, req.AddHeader(h))
	}
	testenv.OK(t, req.SetClientIP("192.0.2.7"))
	all, err := explain.Explain(cfg, req)
	testenv.OK(t, err)
	i := slices.IndexFunc(all, func(r explain.Rule) bool { return r.Rule == name && r.Applied != nil })
	if i < 0 {
		t.Fatalf("rule %q does not apply", name)
	}
	var keys []string
	for _, l := range all[i].Limits {
		keys = append(keys, l.Key)
	}
	plan := all[i].Applied.Limits.Plan
	units, err := strconv.ParseInt(cost, 10, 64)
	testenv.OK(t, err)
	args := plan.CheckArgs(7, algo.Over{}, plan.Each(units))
	if penalty := plan.Terms().Penalty; penalty != nil {
		args = append(append(args, penalty.Args()...), "")
	}
	for _, suffix := range plan.TermSuffixes() {
		key := string(wire.AppendKey(nil, cfg.Redis.KeyPrefix, []byte(all[i].Tag), suffix))
		if set := client.Get(t.Context(), key).Val(); suffix == algo.OverrideSuffix && set != "" {
			args = append(args, set)
		}
		keys = append(keys, key)
	}
	testenv.OK(t, client.Eval(t.Context(), plan.Script().Source, keys, live.Values(args)...).Err())
}
