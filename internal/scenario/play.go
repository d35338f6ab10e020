package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// World runs the plugin for scenarios, one after the other.
type World interface {
	// Load begins a scenario.
	Load(t *testing.T, c *Config)
	// Send sends requests one after the other, each once the one before is answered.
	Send(t *testing.T, requests []Request) []Answer
	// Upstream has the upstream give another answer than 200, until the scenario ends.
	Upstream(answer Answer)
	// Redis runs a command and returns its reply, a line for each element.
	Redis(t *testing.T, words []string) string
}

// Virtual is a World without Envoy.
type Virtual interface {
	World
	Pass(d time.Duration)
	// Fault has Redis be down, or up again.
	Fault(down bool)
	Log() []string
}

// Play plays the scenarios of a file that are for a store and for this kind of world. All of them
// are subtests, as scenarios are.
func (f *File) Play(t *testing.T, store Store, w World) {
	t.Helper()
	p := player{file: f, store: store, world: w}
	p.virtual, _ = w.(Virtual)
	datadriven.RunTest(t, f.path, p.do)
}

type player struct {
	file      *File
	store     Store
	world     World
	virtual   Virtual // nil: an Envoy
	config    *Config // nil: the scenario is for other worlds
	scenarios int     // so far
	began     time.Time
}

func (p *player) do(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if d.Cmd == "config" {
		p.scenarios++
		p.config = p.file.config(p.scenarios, p.store)
		if p.config == nil || p.config.Virtual && p.virtual == nil {
			p.config = nil
			return d.Expected
		}
		p.world.Load(t, p.config)
		p.began = time.Now()
		return ""
	}
	if p.config == nil {
		return d.Expected
	}
	switch d.Cmd {
	case "request":
		return p.request(t, d)
	case "redis":
		return p.redis(t, d)
	case "upstream":
		answer, err := parseAnswer(d.Input)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		p.world.Upstream(answer)
		return ""
	case "fault":
		if d.Input != "redis down" && d.Input != "redis up" {
			t.Fatalf("%s: %q: want redis down or redis up", d.Pos, d.Input)
		}
		p.virtual.Fault(d.Input == "redis down")
		return ""
	case "log":
		return strings.Join(p.virtual.Log(), "\n")
	}
	t.Fatalf("%s: no command is called %q", d.Pos, d.Cmd)
	return ""
}

func (p *player) request(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var show struct{ body, upstream bool }
	for _, arg := range d.CmdArgs {
		for _, what := range arg.Vals {
			show.body, show.upstream = show.body || what == "body", show.upstream || what == "upstream"
		}
	}
	var requests []Request
	var out strings.Builder
	flush := func() {
		for _, a := range p.world.Send(t, requests) {
			fmt.Fprintln(&out, a.line())
			if show.body && a.Body != "" {
				fmt.Fprintln(&out, "  "+a.Body)
			}
			if show.upstream && a.Upstream != nil {
				fmt.Fprintln(&out, "  upstream: "+a.Upstream.line())
			}
		}
		requests = nil
	}
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if passes, ok := strings.CutPrefix(line, "time "); ok {
			flush()
			fmt.Fprintln(&out, line)
			p.pass(t, d, passes)
			continue
		}
		r, err := parseRequest(line)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		requests = append(requests, r)
	}
	flush()
	got := out.String()
	if p.config.noSeconds {
		return seconds.ReplaceAllString(got, "")
	}
	if p.virtual == nil && withinSeconds(got, d.Expected, int(time.Since(p.began)/time.Second)) {
		return d.Expected
	}
	return got
}

func (p *player) pass(t *testing.T, d *datadriven.TestData, passes string) {
	t.Helper()
	duration, err := time.ParseDuration(passes)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	p.virtual.Pass(duration)
}

// seconds are the numbers in an output that count down.
var seconds = regexp.MustCompile(`(?: reset=| retry-after=|;t=)(\d+)`)

// withinSeconds reports whether an output is the wanted one but for seconds that have passed.
func withinSeconds(got, want string, passed int) bool {
	if seconds.ReplaceAllString(got, "") != seconds.ReplaceAllString(want, "") {
		return false
	}
	g, w := seconds.FindAllStringSubmatch(got, -1), seconds.FindAllStringSubmatch(want, -1)
	for i := range min(len(g), len(w)) {
		a, _ := strconv.Atoi(g[i][1])
		b, _ := strconv.Atoi(w[i][1])
		if a > b || a < b-passed {
			return false
		}
	}
	return len(g) == len(w)
}

func (p *player) redis(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if p.store != Redis {
		return d.Expected
	}
	var replies strings.Builder
	for line := range strings.Lines(d.Input) {
		words, err := split(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		for i, word := range words {
			if rest, ok := strings.CutPrefix(word, "rl:"); ok {
				words[i] = p.config.Prefix + ":" + rest
			}
		}
		reply := p.world.Redis(t, words)
		fmt.Fprintln(&replies, strings.ReplaceAll(reply, p.config.Prefix+":", "rl:"))
	}
	return replies.String()
}
