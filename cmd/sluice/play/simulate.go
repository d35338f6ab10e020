// Package play has the commands that play traffic: simulate, suggest and compare.
package play

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// simulation is the flags of simulate.
type simulation struct {
	input.Source
	traffic, log string            // files
	fields       map[string]string // of the log
	client       simulate.Client
	headers      []string
	duration     time.Duration
	roundTrip    time.Duration
	away, hangs  []string
	svg, html    string
	contracts    live.Contracts
	options      simulate.Options
	most         int64 // requests
}

// Commands are simulate, compare and suggest.
func Commands(c *console.Console) []*cobra.Command {
	return []*cobra.Command{simulateCommand(c), compareCommand(c), suggestCommand(c)}
}

func simulateCommand(c *console.Console) *cobra.Command {
	s := &simulation{client: simulate.Client{Name: "clients"}, duration: time.Minute, roundTrip: 500 * time.Microsecond}
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Play traffic through a configuration, in as many Envoys as you like",
		Long: `Simulate plays traffic through the plugin's own code: its rules, leases, deny
cache and breaker, in the workers of several Envoys, with a Redis made of the
algorithms' Go twins. Time is simulated, so that an hour takes seconds. The
traffic is described by a file or by flags, or comes from an access log.`,
		Example: "  sluice simulate -c plugin.json --url https://h/api/ -H 'x-api-key: k{n}' --rate 200 --identities 50 " +
			"--zipf 1.1\n" +
			"  sluice simulate -c plugin.json --traffic traffic.yaml --envoys 10 --redis-away 20s-30s --html report.html",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := s.world(); err != nil {
				return console.Misuse(err)
			}
			report, err := s.run(c)
			if err != nil {
				return err
			}
			return s.print(c, report)
		},
	}
	s.Source.Flag(command)
	command.PreRunE = live.FromEnvironment(c)
	f := command.Flags()
	f.StringVar(&s.traffic, "traffic", "", "file that describes the traffic")
	f.StringVar(&s.log, "log", "", "access log of Envoy to play")
	s.fieldsFlag(f)
	f.StringVar(&s.client.URL, "url", "", "URL of the requests; {n} is the client's number")
	f.StringArrayVarP(&s.headers, "header", "H", nil,
		"a header of the requests, 'name: value'; {n} is the client's number")
	f.StringVar(&s.client.Method, "method", "GET", "method of the requests")
	f.StringVar(&s.client.ClientIP, "client-ip", "",
		"address of the clients, or a network in which client n has the n-th address")
	f.Float64Var(&s.client.Rate, "rate", 100, "requests a second")
	f.IntVar(&s.client.Identities, "identities", 1, "how many clients there are")
	f.Float64Var(&s.client.Zipf, "zipf", 0, "client n sends in proportion to 1/n^zipf; 0: all alike")
	f.StringVar(&s.client.Retry, "retry", "never", "what rejected clients do: never, after (Retry-After), at once")
	f.Var(duration.New(&s.duration), "duration", "how long")
	f.IntVar(&s.options.Envoys, "envoys", 1, "how many Envoys share the traffic")
	f.IntVar(&s.options.Workers, "workers", 2, "worker threads of each Envoy")
	f.IntVar(&s.options.Shards, "redis-shards", 1, "primaries of the Redis Cluster, each with a core of its own")
	f.Var(duration.New(&s.roundTrip), "round-trip", "round trip to Redis")
	f.StringArrayVar(&s.away, "redis-away", nil, "when Redis cannot be reached, such as 20s-30s")
	f.StringArrayVar(&s.hangs, "redis-hangs", nil, "when Redis does not answer")
	f.BoolVar(&s.options.Loses, "redis-loses", false, "Redis comes back empty after --redis-away")
	f.Int64Var(&s.most, "max-requests", simulate.MaxRequests, "how many requests to play at most; so many take a minute")
	f.Uint64Var(&s.options.Seed, "seed", 1, "the same seed gives the same traffic")
	s.contracts.Flag(f)
	f.StringVar(&s.svg, "svg", "", "file for the picture")
	f.StringVar(&s.html, "html", "", "file for a page with picture and tables")
	command.MarkFlagsMutuallyExclusive("traffic", "log", "url")
	command.MarkFlagsOneRequired("traffic", "log", "url")
	return command
}

// What is simulated at most.
const (
	maxWorkers   = 100_000
	maxShards    = 16_384 // as many as a Redis Cluster has slots
	maxRoundTrip = time.Minute
)

// world checks the flags that describe the world.
func (s *simulation) world() error {
	if s.options.Envoys < 1 || s.options.Workers < 1 || s.options.Envoys > maxWorkers/s.options.Workers {
		return fmt.Errorf("--envoys and --workers: want at least 1 each, and %d workers at most", maxWorkers)
	}
	if s.options.Shards < 1 || s.options.Shards > maxShards {
		return fmt.Errorf("--redis-shards: want 1 to %d", maxShards)
	}
	if s.roundTrip > maxRoundTrip {
		return fmt.Errorf("--round-trip: want %s at most", maxRoundTrip)
	}
	s.options.RoundTripMicros = s.roundTrip.Microseconds()
	for _, f := range []struct {
		name  string
		texts []string
		into  *[]simulate.Period
	}{{"--redis-away", s.away, &s.options.Away}, {"--redis-hangs", s.hangs, &s.options.Hangs}} {
		for _, text := range f.texts {
			from, to, ok := strings.Cut(text, "-")
			begin, err1 := duration.Parse(from)
			end, err2 := duration.Parse(to)
			if !ok || cmp.Or(err1, err2) != nil || end <= begin {
				return fmt.Errorf("%s: %q is not a period (want such as 20s-30s)", f.name, text)
			}
			*f.into = append(*f.into, simulate.Period{FromMicros: begin.Microseconds(), ToMicros: end.Microseconds()})
		}
	}
	return nil
}

// described is the traffic that a file or the flags describe.
func (s *simulation) described(c *console.Console) (traffic *simulate.Traffic, err error) {
	if s.traffic != "" {
		text, err := c.Read(s.traffic)
		if err != nil {
			return nil, err
		}
		if traffic, err = simulate.ParseTraffic(text); err != nil {
			return nil, console.Usage("%s: %w", s.traffic, err)
		}
	} else {
		s.client.Headers = map[string]string{}
		for _, header := range s.headers {
			name, value, ok := strings.Cut(header, ":")
			if !ok {
				return nil, console.Usage("%q is not a header (want \"name: value\")", header)
			}
			s.client.Headers[name] = strings.TrimSpace(value)
		}
		length := simulate.Duration(s.duration.Microseconds())
		traffic = &simulate.Traffic{Duration: length, Clients: []simulate.Client{s.client}}
		err = traffic.Check()
	}
	if err = cmp.Or(err, traffic.CheckSize(s.most)); err != nil {
		return nil, console.Misuse(err)
	}
	return traffic, nil
}

// load reads the configuration, and compiles its rules.
func (s *simulation) load(c *console.Console) (*input.Limiter, *rule.Set, error) {
	l, err := s.Limiter(c)
	if err != nil {
		return nil, nil, err
	}
	s.options.Expressions = &explain.Expressions{}
	rules, err := rule.Compile(l.Config, s.options.Expressions)
	if err != nil {
		return nil, nil, err
	}
	s.options.Contracts, err = s.contracts.Read(c, l)
	return l, rules, err
}

// withLog reads the access log, and says what it lacks for what is done with it.
func (s *simulation) withLog(c *console.Console, do func(*simulate.Log) error) error {
	file, err := c.Open(s.log)
	if err != nil {
		return err
	}
	log, err := simulate.ReadLog(file, s.fields)
	if err == nil {
		err = do(log)
	}
	if err != nil {
		return console.Usage("%s: %w", s.log, err)
	}
	for _, note := range log.Notes {
		c.Warn("note: %s\n", note)
	}
	return nil
}

// run plays the log, or the traffic that is described.
func (s *simulation) run(c *console.Console) (report *simulate.Report, err error) {
	l, rules, err := s.load(c)
	if err != nil {
		return nil, err
	}
	if s.log == "" {
		traffic, err := s.described(c)
		if err != nil {
			return nil, err
		}
		return simulate.Run(l.Config, rules, simulate.Generate(traffic, s.options.Seed), s.options), nil
	}
	err = s.withLog(c, func(log *simulate.Log) error {
		if log.Skipped > 0 && s.options.Refused == nil {
			c.Warn("note: %d lines of %s are not requests\n", log.Skipped, s.log)
		}
		report = simulate.Run(l.Config, rules, log, s.options)
		return log.Err
	})
	return report, err
}

// logFlags adds the flags that describe an access log, which is needed.
func (s *simulation) logFlags(command *cobra.Command) {
	command.Flags().StringVar(&s.log, "log", "", "access log of Envoy")
	console.Must(command.MarkFlagRequired("log"))
	s.fieldsFlag(command.Flags())
}

func (s *simulation) fieldsFlag(f *pflag.FlagSet) {
	f.StringToStringVar(&s.fields, "fields", nil,
		"names of a JSON log's own for time, method, path, host, ip, status or a header, such as time=ts,x-api-key=key_hash")
}

// print writes the files that were asked for, and prints the report.
func (s *simulation) print(c *console.Console, r *simulate.Report) error {
	tables := simulationTables(r)
	page, err := r.HTML(tables)
	if err == nil && s.svg != "" {
		err = c.Write(s.svg, r.SVG())
	}
	if err == nil && s.html != "" {
		err = c.Write(s.html, page)
	}
	if err != nil {
		return err
	}
	hint := ""
	if s.log != "" {
		hint = "; a log has only what its format writes"
	}
	for _, rule := range r.Rules {
		if rule.Why != "" {
			c.Warn("note: rule %q applied to no request: %s%s\n", rule.Rule, rule.Why, hint)
		}
	}
	if c.JSON() {
		return c.Print(r)
	}
	for i, rows := range tables {
		if i > 0 {
			c.Say("\n")
		}
		if err := c.Table(rows); err != nil {
			return err
		}
	}
	if len(r.Log) > 0 {
		c.Say("\nLOG\n")
	}
	for _, line := range r.Log {
		c.Say("%d times: %s\n", line.Times, line.Text)
	}
	return nil
}

// row is a row of a table.
func row(cells ...any) (texts []string) {
	for _, cell := range cells {
		texts = append(texts, fmt.Sprint(cell))
	}
	return texts
}

// simulationTables are a report's tables: clients, rules, and Redis.
func simulationTables(r *simulate.Report) [][][]string {
	clients := [][]string{{"CLIENTS", "REQUESTS", "RETRIES", "ADMITTED", "429", "503"}}
	for _, g := range r.Groups {
		clients = append(clients, row(g.Name, g.Requests, g.Retries, g.Admitted, g.Rejected, g.Refused))
	}
	rules := [][]string{{"RULE", "CHECKED", "ADMITTED", "REJECTED", "LIMIT", "MOST IN ANY WINDOW OF ONE IDENTITY"}}
	for _, rule := range r.Rules {
		rejected := console.Whole(rule.Rejected)
		if rule.Mode == "shadow" {
			rejected = console.Whole(rule.Shadow) + " (shadow)"
		}
		if rule.Over > 0 {
			rejected += ", over " + console.Whole(rule.Over)
		}
		head := row(rule.Rule, rule.Checked, rule.Admitted, rejected)
		for _, l := range rule.Limits {
			text := console.Limit(l.Algorithm, l.Limit.Limit, l.Capacity, l.Window, l.Unit)
			rules = append(rules, slices.Concat(head, row(text, l.MostInWindow)))
			head = make([]string, len(head))
		}
	}
	d := r.Redis
	if d == nil {
		return [][][]string{clients, rules}
	}
	redis := [][]string{
		{"REDIS", ""},
		{"commands a second", fmt.Sprintf("%.0f (%.3f a request)", d.CommandsASecond, d.CommandsARequest)},
		{"busy cores, of shards", fmt.Sprintf("%.3f of %d", d.Cores, d.Shards)},
		{"bytes a second", fmt.Sprintf("%.0f", d.BytesASecond)},
		row("connections", d.Connections),
		{"keys at the end", fmt.Sprintf("%d, %d bytes", d.Keys, d.KeyBytes)},
		{"wait, p50 and p99", fmt.Sprintf("%.2f and %.2f ms", float64(r.WaitP50Micros)/1000, float64(r.WaitP99Micros)/1000)},
		row("rejected from memory", d.DenyCacheHits),
	}
	if d.LeaseUnitsTaken > 0 {
		leased := fmt.Sprintf("%d, %d", d.LeaseUnitsTaken, d.LeaseUnitsGivenUp)
		redis = append(redis, row("leased units, and given back", leased))
	}
	if d.Failures > 0 {
		redis = append(redis, row("checks it did not decide", d.Failures), row("breaker opened", d.BreakerOpenings),
			row("let pass undecided", r.Undecided), row("decided locally", r.Local))
	}
	return [][][]string{clients, rules, redis}
}
