package live

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	wire "github.com/sluiceproxy/sluice/plugin/redis"
)

// A calendar's window is the one that Redis' time is in, whatever this machine's is.
func TestReadCalendar(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx := context.Background()
	client := &session{Flags: &Flags{Prefix: "rl"}, redis: server.Client()}
	cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [{"name": "r", "limits": [
		{"algorithm": "fixed_window", "limit": 100, "window": "year", "timezone": "Asia/Tokyo", "starts": "03-17"},
		{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`))
	testenv.OK(t, err)
	tagger, err := NewTagger(cfg, "r")
	testenv.OK(t, err)
	id, err := tagger.Identity("", nil, nil)
	testenv.OK(t, err)
	now := time.Now()
	b := id.Sets[0].Calendars[0].Around(now.UnixMicro())
	// What the script writes: the minute in which the window begins, and the count.
	state := (b[1]/60e6%(1<<22))<<31 + 7
	name := string(wire.AppendKey(nil, "rl", id.Tag, ":fixed_window:year:Asia/Tokyo:03-17"))
	testenv.OK(t, server.Client().Do(ctx, "SET", name, state, "PXAT", b[2]/1000).Err())
	found, err := client.read(ctx, id)
	testenv.OK(t, err)
	all := found[id]
	got := all[0]
	testenv.Same(t, "the key", got.Key, name)
	testenv.Same(t, "what is used", got.Used, 7)
	testenv.Same(t, "what remains", got.Remaining, 93)
	testenv.Same(t, "the window", got.Window, "year:Asia/Tokyo:03-17")
	testenv.Same(t, "its begin", got.WindowBegins.UnixMicro(), b[1])
	testenv.Same(t, "its end", got.WindowEnds.UnixMicro(), b[2])
	testenv.Same(t, "the end of the other limit's window", all[1].WindowEnds, nil)
	if reset := got.WindowEnds.Sub(now).Microseconds() - got.ResetMicros; reset < 0 || reset > 60e6 {
		t.Errorf("the reset is in %d us, at the end of the window it is not", got.ResetMicros)
	}
	client.Ahead = -10 * 365 * 24 * time.Hour
	if _, err = client.read(ctx, id); err == nil || !strings.HasPrefix(err.Error(), "the time in Redis is ") {
		t.Errorf("with the windows of another time: %v", err)
	}
}
