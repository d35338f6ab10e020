// Package webhook answers Kubernetes' API server whether an object may be stored: a validating
// admission webhook
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/).
package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
)

// maxReview bounds a review, in bytes: it has an object twice, of 3 MB at most
// (https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/server/config.go,
// MaxRequestBodyBytes).
const maxReview = 8 << 20

// kinds are those that may have a configuration of the plugin.
var kinds = []string{"WasmPlugin", "TrafficExtension", "EnvoyExtensionPolicy", "EnvoyFilter"}

// Check looks at an object, as JSON. Mistakes refuse it, warnings are shown to who applies it.
type Check func(object []byte) (mistakes, warnings []string)

// Handler serves /validate, /healthz and /metrics.
type Handler struct {
	*http.ServeMux

	check                    Check
	allowed, refused, errors atomic.Int64 // reviews, by what came of them
}

// New makes the handler.
func New(check Check) *Handler {
	h := &Handler{check: check, ServeMux: http.NewServeMux()}
	h.HandleFunc("POST /validate", h.validate)
	h.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	h.HandleFunc("GET /metrics", h.metrics)
	return h
}

// metrics are in Prometheus' text format.
func (h *Handler) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("content-type", "text/plain; version=0.0.4")
	fmt.Fprint(w, "# HELP sluice_webhook_reviews_total Reviews of objects, by what came of them.\n# TYPE "+
		"sluice_webhook_reviews_total counter\n")
	for _, c := range []struct {
		result string
		count  *atomic.Int64
	}{{"allowed", &h.allowed}, {"refused", &h.refused}, {"error", &h.errors}} {
		fmt.Fprintf(w, "sluice_webhook_reviews_total{result=%q} %d\n", c.result, c.count.Load())
	}
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
	var asked review
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&asked); err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		h.fail(w, code, "want an AdmissionReview: "+err.Error())
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
	if r.Operation == "UPDATE" && sameSpec(r.Object, r.OldObject) {
		return answer // a label, a status, a finalizer that is taken off
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

// sameSpec reports whether two objects have one spec.
func sameSpec(a, b json.RawMessage) bool {
	var x, y struct{ Spec any }
	return decode(a, &x) == nil && decode(b, &y) == nil && x.Spec != nil && reflect.DeepEqual(x.Spec, y.Spec)
}

// decode keeps numbers as they are written.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}
