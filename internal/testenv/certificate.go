package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates that name who they are for by a URI, as SPIFFE has it
// (https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md).
type Authority struct {
	CertFile string // its own certificate, PEM

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true}
	der := a.sign(template, template, &a.key.PublicKey)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.CertFile = writePEM(t, a.dir, "authority.crt", "CERTIFICATE", der)
	return a
}

// Issue writes a certificate for a name and a URI, and its key, as PEM files.
func (a *Authority) Issue(name, uri string) (certFile, keyFile string) {
	a.t.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		a.t.Fatal(err)
	}
	key := a.newKey()
	der := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, URIs: []*url.URL{parsed},
	}, a.cert, &key.PublicKey)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return writePEM(a.t, a.dir, name+".crt", "CERTIFICATE", der), writePEM(a.t, a.dir, name+".key", "PRIVATE KEY", pkcs8)
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *Authority) sign(template, parent *x509.Certificate, public *ecdsa.PublicKey) []byte {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

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
