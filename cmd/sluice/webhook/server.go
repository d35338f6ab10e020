package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
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

	last atomic.Pointer[tls.Certificate] // nil before the first is read
}

// get is the certificate of a handshake: API servers keep their connections, so that handshakes are
// few. What cannot be read, or is half written, leaves the last one.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.last.Store(&pair)
	}
	if last := c.last.Load(); last != nil {
		return last, nil
	}
	return nil, err
}
