// Demo runs what "make run" shows: Redis, an upstream and Envoy with
// envoy.yaml, on the ports that file has or, where one is taken, on a free one.
// With STORE=local in the environment there is no Redis, and Envoy's workers
// count in memory they share. It shows each decision, and ends all it started
// on Ctrl-C.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := checkStore(os.Getenv("STORE")); err != nil {
		fail(err)
	}
	d := demo{out: os.Stdout, local: os.Getenv("STORE") == "local", ports: documented}
	if err := d.run(ctx); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "demo:", err)
	os.Exit(1)
}

func checkStore(store string) error {
	if store != "" && store != "local" && store != "redis" {
		return fmt.Errorf("STORE=%s: want local, or nothing for Redis", store)
	}
	return nil
}
