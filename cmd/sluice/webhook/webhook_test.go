package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// ask sends a review about an object, and returns the answer.
func ask(h http.Handler, object string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(`{"apiVersion": "admission.k8s.io/v1",
		"kind": "AdmissionReview", "request": {"uid": "u", "kind": {"kind": "WasmPlugin"}, "operation": "CREATE", `+
		`"object": `+object+`}}`))
	r.Header.Set("content-type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestTwoReviewsAtATime has two reviews come while two others are looked at: the first waits in vain,
// the second until there is a place.
func TestTwoReviewsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looked, goOn := new(atomic.Int64), make(chan struct{})
		h := New(func([]byte) (mistakes, warnings []string) {
			looked.Add(1)
			<-goOn
			return nil, nil
		})
		codes := make(chan int)
		for range 3 {
			go func() { codes <- ask(h, "{}").Code }()
			synctest.Wait()
		}
		testenv.Same(t, "looked at while two are", looked.Load(), 2)
		testenv.Same(t, "the third", <-codes, http.StatusServiceUnavailable)
		go func() { codes <- ask(h, "{}").Code }()
		synctest.Wait()
		close(goOn)
		for range 3 {
			testenv.Same(t, "the others", <-codes, http.StatusOK)
		}
		testenv.Same(t, "looked at", looked.Load(), 3)
		testenv.Same(t, "bytes of reviews that are over", h.held.Load(), 0)
	})
}

// TestObjectOfManyValues lets an object pass that takes too much memory to be looked at, and says so.
func TestObjectOfManyValues(t *testing.T) {
	t.Parallel()
	h := New(func([]byte) (mistakes, warnings []string) { return []string{"looked at"}, nil })
	numbers := "[1" + strings.Repeat(",1", maxValues) + "]"
	for _, object := range []string{
		`{"spec": ` + numbers + `}`, `{"spec": ` + strconv.Quote(numbers) + `}`,
		`{"spec": "` + strings.Repeat(`1\n`, maxValues+1) + `"}`,
	} {
		text := ask(h, object).Body.String()
		testenv.Same(t, "that it is let through", strings.Contains(text, `"allowed":true`), true)
		testenv.Same(t, "that it says why: "+text, strings.Contains(text, "and was not looked at (at most 200000)"), true)
	}
	if text := ask(h, `{"spec": [1,1]}`).Body.String(); !strings.Contains(text, "looked at") {
		t.Errorf("a small one: %s", text)
	}
}

// TestReviewsTogether holds what all reviews that wait may take.
func TestReviewsTogether(t *testing.T) {
	t.Parallel()
	h := New(func([]byte) (mistakes, warnings []string) { return nil, nil })
	h.held.Store(maxHeld - 100)
	testenv.Same(t, "a review beyond it", ask(h, "{}").Code, http.StatusServiceUnavailable)
	h.held.Store(0)
	testenv.Same(t, "a review after it", ask(h, "{}").Code, http.StatusOK)
}

// TestServes looks at everything but what is said of objects. In the end it changes the files of the certificate in
// place: to a pair that is half written, then to a new one.
func TestServes(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	s, addr := &Server{Handler: New(func(object []byte) (mistakes, warnings []string) {
		if bytes.Contains(object, []byte("wrong")) {
			mistakes = []string{"wrong"}
		}
		return mistakes, nil
	})}, listener.Addr().String()
	s.Cert, s.Key = testenv.Certificate(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		testenv.OK(t, <-ended)
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for _, c := range []struct {
		name, kind, body string
		code             int
	}{
		{"not JSON", "application/json", "x", http.StatusBadRequest},
		{"another type", "text/plain", "{}", http.StatusUnsupportedMediaType},
		{"another object", "application/json", `{"kind": "Pod"}`, http.StatusBadRequest},
		{
			"no request", "application/json", `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`,
			http.StatusBadRequest,
		},
		{"too large", "application/json", `{"kind": "` + strings.Repeat("x", 9<<20) + `"}`, http.StatusRequestEntityTooLarge},
	} {
		response, err := client.Post("https://"+addr+"/validate", c.kind, strings.NewReader(c.body))
		testenv.OK(t, err)
		response.Body.Close()
		testenv.Same(t, c.name, response.StatusCode, c.code)
	}
	ask(s.Handler, `"wrong"`)
	ask(s.Handler, `"right"`)
	for path, want := range map[string]string{
		"/healthz": "ok\n",
		"/metrics": "{result=\"allowed\"} 1\nsluice_webhook_reviews_total{result=\"refused\"} " +
			"1\nsluice_webhook_reviews_total{result=\"error\"} 5\n",
	} {
		response, err := client.Get("https://" + addr + path)
		testenv.OK(t, err)
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if !strings.HasSuffix(string(text), want) {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}

	cert, key := testenv.NewAuthority(t).Issue("webhook", "spiffe://x/webhook")
	served := [3][]byte{} // certificates
	for i, file := range []struct{ from, to string }{{}, {cert, s.Cert}, {key, s.Key}} {
		if file.from != "" {
			testenv.OK(t, os.WriteFile(file.to, testenv.Read(t, file.from), 0o600))
		}
		response, err := client.Get("https://" + addr + "/healthz")
		testenv.OK(t, err)
		response.Body.Close()
		served[i] = response.TLS.PeerCertificates[0].Raw
	}
	if !bytes.Equal(served[1], served[0]) {
		t.Error("a certificate without its key is in use")
	}
	if bytes.Equal(served[2], served[0]) {
		t.Error("the new certificate is not in use")
	}
}
