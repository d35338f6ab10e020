package main

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/sha256"
)

// Each worker tries Redis once (plugin/redis, startup_check.go). Envoy also runs the plugin in its main
// thread, which sees no request and cannot reach an internal listener, so the main thread must
// not warn. Envoy does not tell the plugin where it runs. With a configuration from a file,
// it first makes a VM to see whether the configuration is right, then that of the main
// thread, and then those of the workers. With one from a control plane the order may differ,
// so a VM whose trial fails asks the others before it warns.

// mainThread is the number of the main thread's VM, counted from 1.
const mainThread = 2

// Bound: Redis that a VM has tried. Beyond it, the oldest is forgotten, and tried again if it comes
// back. Protects memory over many configurations.
const maxTrials = 16

// trials is the state of the trials in one VM.
type trials struct {
	host   host
	tried  []attempt // what this VM has tried, or need not
	number int       // of this VM; 0: not known yet
}

// attempt has the settings that a trial depends on.
type attempt struct {
	redis     config.Redis
	overrides bool
}

// mustTry reports whether this worker has yet to try a Redis. Updates of the rules
// alone, which may come several a second, need no connection for that, but for one that
// brings the first overrides.
func (t *trials) mustTry(cfg *config.Config) bool {
	if t.number == 0 {
		t.number = t.countVM()
	}
	this := attempt{*cfg.Redis, cfg.UsesOverrides()}
	if t.number == mainThread || slices.Contains(t.tried, this) {
		return false
	}
	if len(t.tried) == maxTrials {
		t.tried = t.tried[1:]
	}
	t.tried = append(t.tried, this)
	return true
}

// countVM counts this VM among those of this Envoy.
func (t *trials) countVM() int {
	const key = "sluice.vms"
	shared := sharedData{t.host}
	for range maxSharedTries {
		var n uint32
		value, cas, err := shared.Get(key)
		if err == nil && len(value) == 4 {
			n = binary.LittleEndian.Uint32(value)
		}
		n++
		if shared.Set(key, binary.LittleEndian.AppendUint32(nil, n), cas) == nil {
			return int(n)
		}
	}
	return mainThread + 1 // a worker, as the main thread has one VM
}

// trial is the trial of one worker.
type trial struct {
	host       host
	key        string // of the shared data: set if any worker could use this Redis
	failure    string // the line about a trial that failed, and has not been told
	tellMicros int64  // when it is told; 0: not known yet
}

func newTrial(h host, r *config.Redis) *trial {
	sum := sha256.New()
	for _, s := range []string{r.Cluster, r.KeyPrefix, r.Username, r.Password, r.PasswordEnv, strconv.FormatInt(r.Database,
		10)} {
		sum.Write([]byte(strconv.Quote(s)))
	}
	return &trial{host: h, key: "sluice.trial." + hex.EncodeToString(sum.AppendSum(nil)[:8])}
}

// ended tells that Redis can be used, or keeps why it cannot.
func (t *trial) ended(ok bool, line string) {
	if !ok {
		t.failure = line
		return
	}
	_ = sharedData{t.host}.Set(t.key, []byte{1}, 0) // else another VM may say too much
	t.host.logLine(logInfo, line)
}

// Bound: us that the other workers have to reach Redis. Beyond it, the failure of one is logged.
// Protects the log from a line that is wrong.
const othersMicros = 1_000_000

// tick tells a failure, unless another worker has found that Redis can be used.
func (t *trial) tick(nowMicros int64) {
	switch {
	case t.failure == "":
	case t.tellMicros == 0:
		t.tellMicros = nowMicros + othersMicros
	case nowMicros >= t.tellMicros:
		if _, _, err := (sharedData{t.host}).Get(t.key); err != nil {
			t.host.logLine(logWarn, t.failure)
		}
		t.failure, t.tellMicros = "", 0
	}
}

// nextMicros is how long until tick must be called; 0 if it need not be.
func (t *trial) nextMicros(nowMicros int64) int64 {
	switch {
	case t.failure == "":
		return 0
	case t.tellMicros == 0:
		return 1
	}
	return max(1, t.tellMicros-nowMicros)
}
