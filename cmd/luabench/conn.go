package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/sluiceproxy/sluice/redisresp"
)

// conn is a connection to the server.
type conn struct {
	tcp     net.Conn
	decoder *redisresp.Decoder
	in      []byte // received and not yet decoded
	unhook  func() bool
}

// dial connects. When the context ends, so does the connection.
func dial(ctx context.Context, addr string) (*conn, error) {
	var dialer net.Dialer
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{
		tcp:     tcp,
		decoder: redisresp.NewDecoder(redisresp.Limits{}),
		unhook:  context.AfterFunc(ctx, func() { tcp.Close() }),
	}
	if password := os.Getenv("REDISCLI_AUTH"); password != "" {
		if _, err := c.do("AUTH", password); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *conn) close() {
	c.unhook()
	c.tcp.Close()
}

// do sends one command. The reply is valid until the next.
func (c *conn) do(command ...string) (redisresp.Reply, error) {
	if _, err := c.tcp.Write(appendCommand(nil, command)); err != nil {
		return redisresp.Reply{}, err
	}
	var reply redisresp.Reply
	err := c.receive(1, func(r redisresp.Reply) error {
		reply = r
		return nil
	})
	if err != nil {
		return redisresp.Reply{}, fmt.Errorf("%s: %w", command[0], err)
	}
	return reply, nil
}

// exchange sends a batch of commands and passes over its replies.
func (c *conn) exchange(batch []byte, replies int) error {
	if _, err := c.tcp.Write(batch); err != nil {
		return err
	}
	return c.receive(replies, func(redisresp.Reply) error { return nil })
}

// receive calls use with each of the next n replies; an error reply is an
// error.
func (c *conn) receive(n int, use func(redisresp.Reply) error) error {
	var space [16 << 10]byte
	for n > 0 {
		reply, size, outcome := c.decoder.Decode(c.in)
		switch {
		case outcome == redisresp.Malformed:
			return c.decoder.Err()
		case outcome == redisresp.Incomplete:
			got, err := c.tcp.Read(space[:])
			if err != nil {
				return err
			}
			c.in = append(c.in, space[:got]...)
			continue
		case reply.Kind == redisresp.Error:
			return errors.New(string(reply.Bytes))
		}
		if err := use(reply); err != nil {
			return err
		}
		n--
		c.in = c.in[size:]
	}
	return nil
}

// appendCommand appends a command as it goes over the wire.
func appendCommand(dst []byte, command []string) []byte {
	dst = redisresp.AppendArray(dst, len(command))
	for _, word := range command {
		dst = redisresp.AppendBulkString(dst, word)
	}
	return dst
}
