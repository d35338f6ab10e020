package live

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/redisresp"
)

// replyLimits bound what a server may have the command keep: go-redis allocates whatever length or
// count it is told.
//
// Bound: bytes, elements and depth of a reply to the command line. Beyond it, the connection fails.
// Protects memory.
var replyLimits = redisresp.Limits{Bytes: 32 << 20, Elements: 1 << 20, Depth: 16}

// dialer opens connections on which only whole replies of RESP 2 within the bounds arrive.
func dialer(o *redis.UniversalOptions) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &connection{Conn: conn, decoder: redisresp.NewDecoder(replyLimits)}, nil
	}
}

// connection holds bytes back until they are a whole reply.
type connection struct {
	net.Conn

	decoder *redisresp.Decoder
	got     []byte
	whole   int // how many of them are whole replies
}

// Read implements io.Reader.
func (c *connection) Read(p []byte) (int, error) {
	for c.whole == 0 {
		var more [16 << 10]byte
		n, err := c.Conn.Read(more[:])
		c.got = append(c.got, more[:n]...)
		if err := c.take(); err != nil {
			return 0, err
		}
		if err != nil && c.whole == 0 {
			return 0, err
		}
	}
	n := copy(p, c.got[:c.whole])
	c.got, c.whole = c.got[n:], c.whole-n
	return n, nil
}

// take finds the whole replies.
func (c *connection) take() error {
	for {
		_, n, outcome := c.decoder.Decode(c.got[c.whole:])
		switch outcome {
		case redisresp.Malformed:
			return fmt.Errorf("it does not answer as Redis does: %w", c.decoder.Err())
		case redisresp.Incomplete:
			return nil
		}
		c.whole += n
	}
}
