package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	// Burst sends a request so many times at once, and returns the status and the outcome of each.
	Burst(t *testing.T, n int, r *Request) []string
	// Hold begins a request, and returns once the upstream has it, which does not answer, or there is an answer.
	Hold(t *testing.T, r *Request) (a Answer, held bool)
	// Release has the upstream answer the request that it holds for the longest time.
	Release(t *testing.T) Answer
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
	// Late has Redis answer all that it has by then every so often, in place of at once.
	Late(every time.Duration)
	Log() []string
	// Metrics are all that are not 0, by their names without the plugin's.
	Metrics() map[string]int64
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
	upstream  Answer // of requests that do not say another one
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
		p.began, p.upstream = time.Now(), Answer{Status: 200}
		return ""
	}
	if p.config == nil {
		return d.Expected
	}
	switch d.Cmd {
	case "request":
		return p.eventually(t, d, p.request)
	case "redis":
		return p.eventually(t, d, p.redis)
	case "upstream":
		p.upstream = p.answer(t, d, d.Input)
		p.world.Upstream(p.upstream)
		return ""
	case "fault":
		every, isLate := strings.CutPrefix(d.Input, "redis answers every ")
		interval, err := time.ParseDuration(every)
		switch {
		case isLate && err == nil:
			p.virtual.Late(interval)
		case d.Input == "redis down" || d.Input == "redis up":
			p.virtual.Fault(d.Input == "redis down")
		default:
			t.Fatalf("%s: %q: want redis down, redis up or redis answers every DURATION", d.Pos, d.Input)
		}
		return ""
	case "log":
		return strings.Join(p.virtual.Log(), "\n")
	case "metrics":
		return p.metrics(d)
	}
	t.Fatalf("%s: no command is called %q", d.Pos, d.Cmd)
	return ""
}

// eventually plays a block, and those with the argument "eventually" on Envoy until the output is the expected one.
func (p *player) eventually(
	t *testing.T, d *datadriven.TestData, play func(*testing.T, *datadriven.TestData) string,
) (out string) {
	t.Helper()
	if !d.HasArg("eventually") {
		return play(t, d)
	}
	if p.virtual != nil {
		p.virtual.Pass(settling)
		return play(t, d)
	}
	for end := time.Now().Add(patience); ; {
		if out = play(t, d); out == d.Expected || time.Now().After(end) {
			return out
		}
	}
}

const (
	settling = 50 * time.Millisecond // until a worker has sent what no request waits for
	patience = 10 * time.Second
)

func (p *player) answer(t *testing.T, d *datadriven.TestData, text string) Answer {
	t.Helper()
	answer, err := parseAnswer(text)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return answer
}

// metrics shows those whose names begin with a line of the input.
func (p *player) metrics(d *datadriven.TestData) string {
	all := p.virtual.Metrics()
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.ContainsFunc(strings.Fields(d.Input), begins) {
			fmt.Fprintln(&out, name, all[name])
		}
	}
	return out.String()
}

func (p *player) request(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var shown []string
	for _, arg := range d.CmdArgs {
		shown = append(shown, arg.Vals...)
	}
	var requests []Request
	var out strings.Builder
	show := func(answers ...Answer) {
		for i := range answers {
			answers[i].show(&out, shown)
		}
	}
	flush := func() {
		show(p.world.Send(t, requests)...)
		requests = nil
	}
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if many := burst.FindStringSubmatch(line); many != nil {
			flush()
			n, _ := strconv.Atoi(many[1])
			r, _ := p.read(t, d, many[2])
			tally(&out, p.world.Burst(t, n, &r))
			continue
		}
		switch first, rest, _ := strings.Cut(line, " "); first {
		case "time":
			flush()
			fmt.Fprintln(&out, line)
			p.pass(t, d, rest)
		case "hold":
			flush()
			r, _ := p.read(t, d, rest)
			if a, held := p.world.Hold(t, &r); held {
				fmt.Fprintln(&out, "held")
			} else {
				show(a)
			}
		case "release":
			flush()
			show(p.world.Release(t))
		default:
			r, upstream := p.read(t, d, line)
			if upstream == nil {
				requests = append(requests, r)
				continue
			}
			flush()
			p.world.Upstream(*upstream)
			show(p.world.Send(t, []Request{r})...)
			p.world.Upstream(p.upstream)
		}
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

// read reads a request, of which the header "upstream" is the answer that the upstream is to give.
func (p *player) read(t *testing.T, d *datadriven.TestData, line string) (r Request, upstream *Answer) {
	t.Helper()
	r, err := parseRequest(line)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	if i := slices.IndexFunc(r.Headers, func(h [2]string) bool { return h[0] == "upstream" }); i >= 0 {
		answer := p.answer(t, d, r.Headers[i][1])
		upstream, r.Headers = &answer, slices.Delete(r.Headers, i, i+1)
	}
	return r, upstream
}

// tally writes how often each line is there.
func tally(out *strings.Builder, lines []string) {
	counts := map[string]int{}
	for _, line := range lines {
		counts[line]++
	}
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%dx %s\n", counts[line], line)
	}
}

func (p *player) pass(t *testing.T, d *datadriven.TestData, passes string) {
	t.Helper()
	duration, err := time.ParseDuration(passes)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	if p.virtual == nil {
		time.Sleep(duration) // what an operator sets is in force within a second
		return
	}
	p.virtual.Pass(duration)
}

// seconds are the numbers in an output that count down.
var seconds = regexp.MustCompile(`(?: reset=| retry-after=|;t=|"reset":|Retry after )(\d+)`)

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
