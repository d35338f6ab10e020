package process

import (
	"net"
	"testing"
)

func TestClaimLeavesTakenPorts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	taken := l.Addr().(*net.TCPAddr).Port
	if c, ok := claim(taken); ok {
		c.Close()
		t.Error("a port on which something listens was claimed")
	}
	if claimAll(taken-1, []int{1}) != nil {
		t.Error("a port was claimed whose neighbour is taken")
	}
	port, release, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := claim(port); ok {
		t.Error("a port was claimed twice")
	}
	release()
	c, ok := claim(port)
	if !ok {
		t.Fatalf("port %d is still claimed", port)
	}
	c.Close()
}
