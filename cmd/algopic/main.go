// Algopic draws docs/img/algorithms.svg: the same traffic under each algorithm,
// decided by the Go twins. "make pictures" runs it at the repository's root.
package main

import (
	"fmt"
	"os"
)

const path = "docs/img/algorithms.svg"

func main() {
	picture, err := draw()
	if err == nil {
		err = os.WriteFile(path, picture, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "algopic:", err)
		os.Exit(1)
	}
}
