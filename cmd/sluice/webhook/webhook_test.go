package webhook

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// ask sends a review about an object, and returns the answer.
func ask(h *Handler, object string) *httptest.ResponseRecorder {
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
