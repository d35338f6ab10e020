package testenv

import (
	"os"
	"strings"
	"testing"
)

// Renewing reports whether golden files and recordings are to be written rather than compared:
// "make golden" sets GOLDEN=1.
func Renewing() bool { return os.Getenv("GOLDEN") == "1" }

// Golden compares what a test has made with a file, or writes it there if Renewing.
func Golden(t testing.TB, file, made string) {
	t.Helper()
	if Renewing() {
		Renew(t, file, made)
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (\"make golden\" writes it)", err)
	}
	if made != string(want) {
		t.Errorf("%s is not what is made now (\"make golden\" writes it; read the difference before you commit it):\n%s",
			file, made)
	}
}

// Renew writes a file if Renewing: a recording, which no two runs make alike.
func Renew(t testing.TB, file, made string) {
	t.Helper()
	if !Renewing() {
		return
	}
	if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Shows wants a page of the repository to have a text: what a document prints is then what the
// code says.
func Shows(t testing.TB, page, want string) {
	t.Helper()
	if !strings.Contains(string(File(t, page)), strings.Trim(want, "\n")) {
		t.Fatalf("%s lacks this:\n%s", page, want)
	}
}
