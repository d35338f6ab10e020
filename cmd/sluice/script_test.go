package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: testenv.Renewing(), RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SLUICE_CONFIG", "plugin.json")
			e.Values["world"] = &world{t: e.T().(testing.TB)}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sluice": commandLine(console.Done), "refused": commandLine(console.Refused),
			"misused": commandLine(console.Misused), "noredis": commandLine(console.NoRedis),
			"about": func(ts *testscript.TestScript, neg bool, args []string) {
				var out strings.Builder
				runIn(ts, console.Done, args, &out)
				steady := aTime.ReplaceAllString(out.String(), "T")
				fmt.Fprint(ts.Stdout(), regexp.MustCompile(` +`).ReplaceAllString(steady, " "))
			},
			"says": says, "redis": startRedis, "redis-cluster": startCluster, "redis-cli": askRedis, "charge": chargeIn,
		},
	})
}

// aTime is one that tables show.
var aTime = regexp.MustCompile(`\b(\d+h)?(\d+m)?(\d+(\.\d+)?s|\dh|\dm|[1-9]\d* ms)\b|\b\d+h(\d+m)?\b|\b\d+m\b`)

// world is what a script has started.
type world struct {
	t      testing.TB
	client redis.UniversalClient
}

func commandLine(code int) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) { runIn(ts, code, args, nil) }
}

// runIn runs a command line in the folder and the environment of a script. out, where it is not nil, takes the
// place of standard output.
func runIn(ts *testscript.TestScript, want int, args []string, out *strings.Builder) {
	c := &console.Console{
		In: strings.NewReader(""), Out: ts.Stdout(), Errors: ts.Stderr(), Dir: ts.MkAbs("."),
		Environment: func(name string) (string, bool) { value := ts.Getenv(name); return value, value != "" },
	}
	if out != nil {
		c.Out = out
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

func says(ts *testscript.TestScript, neg bool, args []string) {
	printed := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	for _, text := range args {
		if strings.Contains(printed, text) == neg {
			ts.Fatalf("%q is there: %t", text, neg)
		}
	}
}

func startRedis(ts *testscript.TestScript, _ bool, args []string) {
	w := ts.Value("world").(*world)
	server := redistest.Start(w.t, args...)
	w.client = server.Client()
	ts.Setenv("REDIS", server.Addr)
	ts.Setenv("SLUICE_REDIS", server.Addr)
}

func startCluster(ts *testscript.TestScript, _ bool, _ []string) {
	w := ts.Value("world").(*world)
	cluster := redistest.StartCluster(w.t, 3)
	w.client = cluster.Client()
	ts.Setenv("NODE", cluster.Addrs()[0])
	ts.Setenv("SLUICE_REDIS", strings.Join(cluster.Addrs(), ","))
}

// askRedis prints a reply, each element of a list on a line of its own.
func askRedis(ts *testscript.TestScript, _ bool, args []string) {
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
}

func chargeIn(ts *testscript.TestScript, _ bool, args []string) {
	w := ts.Value("world").(*world)
	var cost int
	_, err := fmt.Sscan(args[2], &cost)
	ts.Check(err)
	charge(w.t, w.client, ts.ReadFile(args[0]), request(w.t, args[3], args[4:]...), args[1], cost)
}
