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
	net.Conn
	decoder *redisresp.Decoder
	in      []byte // received and not yet decoded
}

// dial connects. When the context ends, so does the connection.
func dial(ctx context.Context, addr string) (*conn, error) {
	var dialer net.Dialer
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { tcp.Close() })
	c := &conn{Conn: tcp, decoder: redisresp.NewDecoder(redisresp.Limits{})}
	if password := os.Getenv("REDISCLI_AUTH"); password != "" {
		_, err = c.do("AUTH", password)
	}
	return c, err
}

// do sends one command. The reply is valid until the next.
func (c *conn) do(command ...string) (redisresp.Reply, error) {
	reply, err := c.exchange(appendCommand(nil, command), 1)
	if err != nil {
		err = fmt.Errorf("%s: %w", command[0], err)
	}
	return reply, err
}

// exchange sends a batch of commands and returns the last of its replies. An error
// reply is an error.
func (c *conn) exchange(batch []byte, replies int) (last redisresp.Reply, err error) {
	if _, err := c.Write(batch); err != nil {
		return last, err
	}
	var space [16 << 10]byte
	for replies > 0 {
		reply, size, outcome := c.decoder.Decode(c.in)
		switch {
		case outcome == redisresp.Malformed:
			return last, c.decoder.Err()
		case outcome == redisresp.Incomplete:
			got, err := c.Read(space[:])
			if err != nil {
				return last, err
			}
			c.in = append(c.in, space[:got]...)
			continue
		case reply.Kind == redisresp.Error:
			return last, errors.New(string(reply.Bytes))
		}
		last, c.in = reply, c.in[size:]
		replies--
	}
	return last, nil
}

// appendCommand appends a command as it goes over the wire.
func appendCommand(dst []byte, command []string) []byte {
	dst = redisresp.AppendArray(dst, len(command))
	for _, word := range command {
		dst = redisresp.AppendBulkString(dst, word)
	}
	return dst
}
