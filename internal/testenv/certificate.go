package testenv

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// CertificateName is a name that the certificate of Certificate is for, next to
// 127.0.0.1.
const CertificateName = "example.com"

// Certificate writes a certificate that signs itself, that of httptest, and its
// key, as PEM files.
func Certificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return writePEM(t, dir, "server.crt", "CERTIFICATE", pair.Certificate[0]),
		writePEM(t, dir, "server.key", "PRIVATE KEY", key)
}

func writePEM(t testing.TB, dir, name, kind string, der []byte) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
