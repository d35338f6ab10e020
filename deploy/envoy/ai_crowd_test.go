package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The crowd: so many streams at once, then one at each interval.
const (
	crowdLimit    = 10_000 // tokens
	crowdAtOnce   = 24
	crowdAtOnceIn = 900 * time.Millisecond
	crowdLater    = 60
	crowdInterval = 200 * time.Millisecond
)

// stream is a request of the crowd.
type stream struct {
	sent  time.Duration // since the first
	worth int64         // tokens
	pause time.Duration // after each event of the answer
}

// crowd is the same each time.
func crowd() (all []stream) {
	at := time.Duration(0)
	for i := range crowdAtOnce + crowdLater {
		worth := int64(i*397%900 + 50)
		all = append(all, stream{
			at, worth,
			(250*time.Millisecond + time.Duration(worth)*700*time.Microsecond).Round(time.Millisecond),
		})
		if i < crowdAtOnce-1 {
			at += crowdAtOnceIn / crowdAtOnce
		} else {
			at += crowdInterval
		}
	}
	return all
}

// body is the request as an OpenAI client sends it, of one length for all, so that
// each reserves the same.
func (s *stream) body() string {
	return fmt.Sprintf(`{"model": "gpt-test", "stream": true, "stream_options": {"include_usage": true},
		"max_tokens": 1000,
		"messages": [{"role": "user", "content": "worth=%03d pause=%04dms"}]}`, s.worth, s.pause.Milliseconds())
}

// startCrowd runs ai.yaml with the limit on tokens alone, and the members of its rule
// changed.
func startCrowd(t *testing.T, edit func(rule map[string]any)) *aiGateway {
	t.Helper()
	return startAIRule(t, func(rule map[string]any) {
		tokens := rule["limits"].([]any)[0].(map[string]any)
		tokens["limit"] = crowdLimit
		rule["limits"] = []any{tokens}
		rule["cost"].(map[string]any)["default"] = crowdLimit
		edit(rule)
	})
}

// ask sends a request, and returns what it has used; 0 if it was rejected.
func (g *aiGateway) ask(client *http.Client, s stream) (used int64, err error) {
	req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(s.body()))
	if err != nil {
		return 0, err
	}
	req.Header.Set("authorization", "Bearer key")
	req.Header.Set("content-type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusTooManyRequests {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(answer), `"total_tokens":`) // as Envoy writes it anew
	digits, _, _ := strings.Cut(rest, "}")
	used, err = strconv.ParseInt(digits, 10, 64)
	if resp.StatusCode != http.StatusOK || err != nil {
		return 0, fmt.Errorf("status %d, %q", resp.StatusCode, answer)
	}
	return used, nil
}

// reservation is the count of one request in Redis while it runs. Nothing is left of it.
func (g *aiGateway) reservation(t *testing.T, client *http.Client) (tokens int64) {
	t.Helper()
	s := stream{worth: 100, pause: 100 * time.Millisecond}
	done := make(chan error)
	go func() {
		_, err := g.ask(client, s)
		done <- err
	}()
	testenv.Wait(t, patience, func() error {
		if tokens = g.tokens(t); tokens == 0 {
			return fmt.Errorf("nothing is reserved")
		}
		return nil
	})
	testenv.OK(t, <-done)
	g.awaitTokens(t, s.worth)
	keys, err := g.client.Keys(ctx, "rl:{llm|*").Result()
	if err == nil {
		err = g.client.Del(ctx, keys...).Err()
	}
	testenv.OK(t, err)
	return tokens
}

// observe lets the crowd come, and looks at Redis all the while, until it holds what
// was used.
func (g *aiGateway) observe(t *testing.T, l *ledger) (r ledgerRun) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: crowdAtOnce}}
	defer client.CloseIdleConnections()
	r.Reservation = g.reservation(t, client)
	all := crowd()
	r.Requests = make([]ledgerRequest, len(all))
	begin := time.Now()
	since := func() int64 { return time.Since(begin).Milliseconds() }
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() {
			time.Sleep(time.Until(begin.Add(s.sent)))
			q := ledgerRequest{Sent: since()}
			used, err := g.ask(client, s)
			if err != nil {
				t.Error(err)
			}
			q.Admitted, q.Ended, q.Used = used > 0, since(), used
			r.Requests[i] = q
		})
	}
	over := make(chan struct{})
	go func() { group.Wait(); close(over) }()
	look := func() {
		if tokens := g.tokens(t); len(r.Held) == 0 || r.Held[len(r.Held)-1].Tokens != tokens {
			r.Held = append(r.Held, ledgerSample{At: since(), Tokens: tokens})
		}
	}
	for ended := false; !ended; time.Sleep(3 * time.Millisecond) {
		select {
		case <-over:
			ended = true
		default:
		}
		look()
	}
	testenv.Wait(t, patience, func() error { // the last settlements
		if look(); r.Held[len(r.Held)-1].Tokens != l.counted(&r) {
			return fmt.Errorf("Redis has %d tokens, %d were used", r.Held[len(r.Held)-1].Tokens, r.used())
		}
		return nil
	})
	return r
}

// TestAICrowdOverTime: at no time does Redis hold more than the limit, as each request
// reserves what it may use. The same requests, each of which reserves one token only
// and is counted when it has ended, use far more.
func TestAICrowdOverTime(t *testing.T) {
	t.Parallel()
	l := ledger{Limit: crowdLimit}
	t.Run("runs", func(t *testing.T) {
		t.Run("settled", func(t *testing.T) {
			t.Parallel()
			l.Settled = startCrowd(t, func(map[string]any) {}).observe(t, &l)
		})
		t.Run("counted after", func(t *testing.T) {
			t.Parallel()
			l.After = startCrowd(t, func(rule map[string]any) { rule["cost"] = 1 }).observe(t, &l)
		})
	})
	t.Logf("settled: %d admitted, %d tokens, at most %d; counted after: %d admitted, %d tokens",
		l.Settled.admitted(), l.Settled.used(), l.Settled.most(), l.After.admitted(), l.After.used())
	testenv.OK(t, l.check())
}
