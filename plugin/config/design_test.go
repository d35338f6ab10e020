package config

import (
	"os"
	"reflect"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// designed is the configuration of testdata/valid/design.json.
var designed = &Config{
	Redis: &Redis{
		Cluster: "redis", KeyPrefix: "rl", TimeoutMicros: 50_000, MaxStreamAgeMicros: 600_000_000,
		PasswordEnv: "REDIS_PASSWORD",
	},
	Failure: Failure{
		Mode:       FailAllow,
		Breaker:    Breaker{Failures: 5, MinOpenMicros: 100_000, MaxOpenMicros: 10_000_000},
		MaxPending: 4096,
	},
	Response: &Response{
		Status: 429, ContentType: "application/json", Body: `{"error":"slow down"}`, HasBody: true,
		Headers: [][2]string{{"x-reason", "quota"}},
	},
	Headers:       Headers{XRateLimit: true, Draft: true},
	DenyCacheSize: 4096,
	RejectedState: true,
	Rules: []Rule{
		{
			Name: "health", Exempt: true,
			Match: Match{Path: &StringMatch{Op: Prefix, Value: "/healthz"}},
		},
		{
			Name: "per-user",
			Match: Match{
				Path:    &StringMatch{Op: Prefix, Value: "/api/"},
				Host:    &StringMatch{Op: Exact, Value: "api.example.com"},
				Methods: []string{"GET", "POST"},
				Headers: []NamedMatch{{Name: "x-plan", Match: StringMatch{Op: Present, Present: true}}},
			},
			Key:  []Component{{Source: FromHeader, Name: "x-api-key", V4Prefix: 32, V6Prefix: 128, Hash: true}},
			Cost: Amount{Header: "x-cost", Default: 1, Max: 100},
			Limits: []Limit{
				{
					Limit: algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000_000, Burst: 20},
					Name:  "per-user-1s", Window: "1s",
				},
				{
					Limit: algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: 1000, WindowMicros: 3_600_000_000},
					Name:  "per-user-1h", Window: "1h",
				},
			},
		},
		{
			Name: "global", Key: []Component{}, Cost: Amount{Default: 1, Max: 1_000_000},
			Limits: []Limit{{
				Limit: algo.Limit{Algorithm: algo.TokenBucket, Units: 5000, WindowMicros: 1_000_000},
				Name:  "global", Window: "1s",
			}},
		},
	},
}

// TestDesignExample holds every field that Parse makes of the example that the
// design gives.
func TestDesignExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/valid/design.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, designed) {
		t.Errorf("got\n%+v\nwant\n%+v", got, designed)
	}
}
