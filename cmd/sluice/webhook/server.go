package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Server serves a handler by TLS.
type Server struct {
	Handler   http.Handler
	Cert, Key string // files, which are read again when they change
}

// shutdown is how long reviews that are under way have when the server ends.
const shutdown = 10 * time.Second

// Serve answers until the context ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	files := &certificate{cert: s.Cert, key: s.Key}
	if _, err := files.get(nil); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s.Handler,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get},
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
		defer cancel()
		ended <- server.Shutdown(grace)
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// certificate is a pair of files. Kubernetes changes them in place, as mounted secrets.
type certificate struct {
	cert, key string

	mutex   sync.Mutex
	read    [2]os.FileInfo // when the pair was read; nil before
	current *tls.Certificate
}

// get is the certificate of a handshake. What cannot be read, or is half written, leaves the last one.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var now [2]os.FileInfo
	for i, name := range []string{c.cert, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			return c.last(err)
		}
		now[i] = info
	}
	if c.current != nil && same(c.read[0], now[0]) && same(c.read[1], now[1]) {
		return c.current, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return c.last(err)
	}
	c.current, c.read = &pair, now
	return c.current, nil
}

func (c *certificate) last(err error) (*tls.Certificate, error) {
	if c.current != nil {
		return c.current, nil
	}
	return nil, err
}

// same reports whether a file is the one that was read: not another, of another size or time.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
