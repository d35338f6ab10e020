package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports are handed out of [lowPort, lowPort+portCount): below the range from
// which systems take the local port of an outgoing connection (32768 and up
// on Linux), with room for an offset of 10000.
const (
	lowPort   = 10000
	portCount = 12000
)

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, and on
// whose neighbours at the given offsets nothing does either. Until it is
// released no other call returns any of them, in this process or another.
func FreePort(offsets ...int) (port int, release func(), err error) {
	first := rand.IntN(portCount)
	for i := range portCount {
		port := lowPort + (first+i)%portCount
		if release := claimAll(port, offsets); release != nil {
			return port, release, nil
		}
	}
	return 0, nil, errors.New("no TCP port of 127.0.0.1 is free")
}

// claimAll takes a port and its neighbours until they are released; nil if one of them is taken.
func claimAll(port int, offsets []int) (release func()) {
	var claims []net.PacketConn
	release = func() {
		for _, c := range claims {
			c.Close()
		}
	}
	for _, offset := range append([]int{0}, offsets...) {
		c, ok := claim(port + offset)
		if !ok {
			release()
			return nil
		}
		claims = append(claims, c)
	}
	return release
}

// claim takes a port whose TCP side is free, by holding its UDP side: that
// shuts out other claims, ends with this process at the latest, and leaves TCP
// to the server that is to listen. Whether something listens, a connection tells:
// a listener of our own would stay open in a child that another goroutine has forked,
// until the child has become another program.
func claim(port int) (net.PacketConn, bool) {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, false
	}
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		c.Close()
		return nil, false
	}
	return c, true
}
