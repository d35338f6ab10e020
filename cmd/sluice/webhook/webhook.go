// Package webhook answers Kubernetes' API server whether an object may be stored: a validating
// admission webhook
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/).
package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// maxReview bounds a review, in bytes: it has an object twice, of 3 MB at most
// (https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/server/config.go,
// MaxRequestBodyBytes).
const maxReview = 8 << 20

const (
	// atOnce is how many objects are looked at at a time. Others wait.
	atOnce = 2
	// patience is how long a review waits for its turn: less than the API server waits for the answer
	// (timeoutSeconds in deploy/webhook).
	patience = 3 * time.Second
	// maxHeld bounds the bytes of all reviews that are being read or wait.
	maxHeld = 6 * maxReview
	// maxValues bounds what one object costs: each value takes some 500 bytes while it is looked at.
	maxValues = 200_000
)

// kinds are those that may have a configuration of the plugin.
var kinds = []string{"WasmPlugin", "TrafficExtension", "EnvoyExtensionPolicy", "EnvoyFilter"}

// Check looks at an object, as JSON. Mistakes refuse it, warnings are shown to who applies it.
type Check func(object []byte) (mistakes, warnings []string)

// Handler serves /validate, /healthz and /metrics.
type Handler struct {
	*http.ServeMux

	check                    Check
	looking                  chan struct{} // has a place for each review that is looked at
	held                     atomic.Int64  // bytes of all reviews
	allowed, refused, errors atomic.Int64  // reviews, by what came of them
}

// New makes the handler.
func New(check Check) *Handler {
	h := &Handler{check: check, ServeMux: http.NewServeMux(), looking: make(chan struct{}, atOnce)}
	h.HandleFunc("POST /validate", h.validate)
	h.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	h.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { // in Prometheus' text format
		w.Header().Set("content-type", "text/plain; version=0.0.4")
		fmt.Fprintf(w, "# HELP sluice_webhook_reviews_total Reviews of objects, by what came of them.\n"+
			"# TYPE sluice_webhook_reviews_total counter\n"+
			"sluice_webhook_reviews_total{result=\"allowed\"} %d\nsluice_webhook_reviews_total{result=\"refused\"} %d\n"+
			"sluice_webhook_reviews_total{result=\"error\"} %d\n", h.allowed.Load(), h.refused.Load(), h.errors.Load())
	})
	return h
}

// The parts of admission.k8s.io/v1 that are read and written
// (https://kubernetes.io/docs/reference/config-api/apiserver-admission.v1/).
type (
	review struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Request    *request  `json:"request,omitempty"`
		Response   *response `json:"response,omitempty"`
	}
	request struct {
		UID       string `json:"uid"`
		Kind      struct{ Kind string }
		Operation string          `json:"operation"`
		Object    json.RawMessage `json:"object"`
		OldObject json.RawMessage `json:"oldObject"`
	}
	response struct {
		UID      string   `json:"uid"`
		Allowed  bool     `json:"allowed"`
		Status   *status  `json:"status,omitempty"`
		Warnings []string `json:"warnings,omitempty"`
	}
	status struct {
		Code    int    `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
)

// validate answers a review.
func (h *Handler) validate(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("content-type")); err != nil || kind != "application/json" {
		h.fail(w, http.StatusUnsupportedMediaType, "want application/json")
		return
	}
	body := &counted{Reader: http.MaxBytesReader(w, r.Body, maxReview), held: &h.held}
	defer func() { h.held.Add(-body.mine) }()
	text, err := io.ReadAll(body)
	if err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		} else if errors.Is(err, errBusy) {
			code = http.StatusServiceUnavailable
		}
		h.fail(w, code, err.Error())
		return
	}
	select {
	case h.looking <- struct{}{}:
		defer func() { <-h.looking }()
	case <-time.After(patience):
		h.fail(w, http.StatusServiceUnavailable, errBusy.Error())
		return
	case <-r.Context().Done():
		h.fail(w, http.StatusServiceUnavailable, "the client is gone")
		return
	}
	var asked review
	if err := json.Unmarshal(text, &asked); err != nil {
		h.fail(w, http.StatusBadRequest, "want an AdmissionReview: "+err.Error())
		return
	}
	if asked.Kind != "AdmissionReview" || asked.APIVersion != "admission.k8s.io/v1" || asked.Request == nil {
		h.fail(w, http.StatusBadRequest, "want an AdmissionReview of admission.k8s.io/v1 with a request")
		return
	}
	answer := h.answer(asked.Request)
	if answer.Allowed {
		h.allowed.Add(1)
	} else {
		h.refused.Add(1)
	}
	w.Header().Set("content-type", "application/json")
	// the client may be gone
	_ = json.NewEncoder(w).Encode(review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: answer})
}

var errBusy = errors.New("too many reviews at once")

// counted is a body whose bytes count towards those of all reviews.
type counted struct {
	io.Reader

	held *atomic.Int64
	mine int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.mine += int64(n)
	if c.held.Add(int64(n)) > maxHeld {
		return 0, errBusy
	}
	return n, err
}

func (h *Handler) fail(w http.ResponseWriter, code int, text string) {
	h.errors.Add(1)
	http.Error(w, text, code)
}

// answer decides about an object.
func (h *Handler) answer(r *request) *response {
	answer := &response{UID: r.UID, Allowed: true}
	if r.Operation != "CREATE" && r.Operation != "UPDATE" || !slices.Contains(kinds, r.Kind.Kind) {
		return answer
	}
	count := values(r.Object)
	if r.Operation == "UPDATE" && max(count, values(r.OldObject)) <= maxValues {
		var x, y struct{ Spec any }
		if decode(r.Object, &x) == nil && decode(r.OldObject, &y) == nil && x.Spec != nil &&
			reflect.DeepEqual(x.Spec, y.Spec) {
			return answer // a label, a status, a finalizer that is taken off
		}
	}
	if count > maxValues {
		answer.Warnings = []string{fmt.Sprintf("sluice: this object has some %d values, and was not looked at (at most %d)",
			count, maxValues)}
		return answer
	}
	mistakes, warnings := h.check(r.Object)
	for _, text := range warnings {
		answer.Warnings = append(answer.Warnings, "sluice: "+text)
	}
	if len(mistakes) > 0 {
		answer.Allowed = false
		answer.Status = &status{
			Code: http.StatusForbidden, Reason: "Forbidden",
			Message: "sluice: " + strings.Join(mistakes, "\nsluice: "),
		}
	}
	return answer
}

// values is at least how many values an object has, in texts that are files of their own, too.
func values(object []byte) (count int) {
	for _, mark := range []string{",", ":", "{", "[", "-", `\n`} {
		count += bytes.Count(object, []byte(mark))
	}
	return count
}

// decode keeps numbers as they are written.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

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
