package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/envoyfile"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Envoy is the proxy that is looked at, by its admin interface
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/operations/admin).
type Envoy struct {
	URL     string
	Timeout time.Duration
	Load    func([]byte) (*config.Config, error)
	Plugin  []byte   // the configuration that it should run
	Redis   []string // the address that is to be tried; nil: that of its cluster
}

// maxAnswer bounds what is read of an answer, in bytes: a dump may be large.
const maxAnswer = 256 << 20

// get asks the admin interface.
func (e *Envoy) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(e.URL, "/")+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, response.Status)
	}
	return body, err
}

// Look tries all that the configuration needs of Envoy, and says how it reaches Redis.
func (e *Envoy) Look(ctx context.Context, r *Report) *Way {
	dump, err := e.get(ctx, "/config_dump")
	var info []byte
	if err == nil {
		info, err = e.get(ctx, "/server_info")
	}
	if err != nil {
		r.Add("envoy", Fail, "want the address of Envoy's admin interface, such as http://127.0.0.1:9901", "%v", err)
		return nil
	}
	e.version(info, r)
	if bytes.Contains(dump, []byte(`"envoy.wasm.runtime.v8"`)) {
		r.Add("v8", Pass, "", "this Envoy has the V8 Wasm runtime")
	} else {
		r.Add("v8", Fail, "use an Envoy with V8, such as the images of envoyproxy/envoy",
			"this Envoy does not name envoy.wasm.runtime.v8 among its extensions")
	}
	found, _, err := find.Configurations("config_dump.json", dump)
	if err != nil {
		r.Add("configuration", Fail, "report it", "its /config_dump does not parse: %v", err)
		return nil
	}
	way := e.limiters(found, r)
	if way != nil {
		e.follow(ctx, way, r)
	}
	e.metrics(ctx, way, r)
	return way
}

var envoyVersion = regexp.MustCompile(`/(\d+)\.(\d+)\.(\d+)`)

// oldest is the oldest minor version of Envoy 1 that Sluice is tested with.
const oldest = 36

// version reads /server_info.
func (e *Envoy) version(info []byte, r *Report) {
	var answer struct{ Version string }
	_ = json.Unmarshal(info, &answer) // an unknown version is reported
	m := envoyVersion.FindStringSubmatch(answer.Version)
	if m == nil {
		r.Add("envoy", Warn, "want 1.36 or later", "its version is not known: %q", answer.Version)
		return
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 1 || major == 1 && minor < oldest {
		r.Add("envoy", Fail, "use 1.36 or later", "Envoy %s", m[0][1:])
		return
	}
	r.Add("envoy", Pass, "", "Envoy %s", m[0][1:])
}

// limiters looks at what Envoy runs of the plugin, and says how the first one reaches Redis.
func (e *Envoy) limiters(found []find.Found, r *Report) (way *Way) {
	limiters := map[*find.Found]*config.Config{}
	var order []*find.Found
	for i := range found {
		f := &found[i]
		if f.Bridge {
			continue
		}
		cfg, err := e.Load(f.JSON)
		switch {
		case err != nil:
			r.Add("configuration", Fail, "sluice validate has the mistakes", "%s has mistakes: Envoy does not run it", f.In)
		default:
			limiters[f], order = cfg, append(order, f)
		}
	}
	if len(order) == 0 {
		r.Add("configuration", Fail, "add the filter: docs/envoy.md", "Envoy has no configuration of the limiter")
		return nil
	}
	same, seen := false, map[envoyfile.Finding]bool{}
	place := []string(nil)
	for _, f := range order {
		same = same || sameJSON(f.JSON, e.Plugin)
		if redis := limiters[f].Redis; redis != nil && way == nil {
			way = &Way{Way: envoyfile.WayTo(f, redis.Cluster)}
		}
		if names := envoyfile.Chain(f); place == nil {
			place = names
		}
		for _, finding := range envoyfile.Findings(f, limiters[f]) {
			finding.Line = 0 // of the dump
			if !seen[finding] {
				seen[finding] = true
				r.finding(&finding)
			}
		}
	}
	if e.conclude(r, same, place); r.wrong(envoyfile.Cluster) {
		return nil
	}
	return way
}

// finding adds a mistake around a configuration.
func (r *Report) finding(f *envoyfile.Finding) {
	status := Warn
	if f.Error {
		status = Fail
	}
	problem, advice := split(f.Problem)
	r.Add(f.Subject, status, advice, "%s", problem)
}

// conclude adds what was found to be right.
func (e *Envoy) conclude(r *Report, same bool, place []string) {
	if same {
		r.Add("configuration", Pass, "", "Envoy runs this configuration")
	} else {
		r.Add("configuration", Warn, "reload Envoy, or give -c what it runs", "Envoy runs another configuration than -c has")
	}
	if place == nil {
		r.Add("place", Warn, "look at the order of filters: after those that verify, before the router",
			"the limiter is sent to Envoy by itself, so its place is not seen")
	} else {
		r.Add("place", Pass, "", "filters: %s", strings.Join(place, ", "))
	}
	for _, c := range []struct{ name, found string }{
		{envoyfile.Cluster, "the cluster that leads to Redis is there"},
		{envoyfile.Bridge, "it has the bridge, or leads to a relay"},
		{envoyfile.FailurePolicy, "a worker whose VM died gets a new one"},
		{envoyfile.Metadata, "what rules read of other filters is written before"},
	} {
		if !r.wrong(c.name) && !(c.name == envoyfile.Bridge && r.wrong(envoyfile.Cluster)) {
			r.Add(c.name, Pass, "", "%s", c.found)
		}
	}
}

// wrong reports whether something was found about a subject.
func (r *Report) wrong(subject string) bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == subject && c.Status != Pass })
}

// split takes the advice, in parentheses, off a finding's text.
func split(problem string) (found, advice string) {
	i := strings.LastIndex(problem, " (want ")
	if i < 0 || !strings.HasSuffix(problem, ")") {
		return problem, ""
	}
	return problem[:i], strings.TrimSuffix(problem[i+2:], ")")
}

// sameJSON reports whether two texts are the same JSON, but for the order of fields.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
