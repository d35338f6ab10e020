package main

import (
	"context"
	"fmt"
	"io"
	"net"
)

// port is where something listens on 127.0.0.1.
type port struct {
	use    string // what it is for
	wanted int    // what to take if it is free
	number int    // what it is, once settled
}

func (p port) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

type ports struct{ listener, admin, upstream, redis port }

// documented are the ports that envoy.yaml has.
var documented = ports{
	listener: port{use: "the limited listener", wanted: 10000},
	admin:    port{use: "Envoy's admin", wanted: 9901},
	upstream: port{use: "the upstream", wanted: 8080},
	redis:    port{use: "Redis", wanted: 6379},
}

// settle takes the wanted ports where they are free, and others where not.
// Whatever listens on a taken port is left alone.
func (p *ports) settle(out io.Writer, local bool) error {
	all := []*port{&p.listener, &p.admin, &p.upstream}
	if local {
		p.redis.number = p.redis.wanted // unused
	} else {
		all = append(all, &p.redis)
	}
	for _, each := range all {
		l, err := each.settle(out)
		if err != nil {
			return err
		}
		defer l.Close() // not before the others have ports of their own
	}
	return nil
}

func (p *port) settle(out io.Writer) (net.Listener, error) {
	ctx := context.Background()
	l, err := listen(ctx, fmt.Sprintf("127.0.0.1:%d", p.wanted))
	if err != nil {
		if l, err = listen(ctx, "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("no port is free for %s: %w", p.use, err)
		}
	}
	p.number = l.Addr().(*net.TCPAddr).Port
	if p.number != p.wanted {
		fmt.Fprintf(out, "port %d is taken: %s is on %d instead\n", p.wanted, p.use, p.number)
	}
	return l, nil
}

// moved reports whether a port differs from the one in envoy.yaml.
func (p *ports) moved() bool {
	return p.listener.number != documented.listener.wanted || p.admin.number != documented.admin.wanted ||
		p.upstream.number != documented.upstream.wanted || p.redis.number != documented.redis.wanted
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp4", addr)
}
