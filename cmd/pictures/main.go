// Pictures draws what docs/img/ has of the algorithms and of settlements: the same traffic
// under each algorithm, decided by the Go twins, who gets a pool with a ceiling and with guarantees,
// as "sluice simulate" has it, and what a crowd of LLM clients did to a limit on tokens, as
// settle.json has recorded it. "make pictures" records, and
// runs it at the repository's root.
package main

import (
	"fmt"
	"os"
)

// pictures are the pictures to draw, by their files.
var pictures = map[string]func() ([]byte, error){
	"docs/img/algorithms.svg": drawAlgorithms,
	"docs/img/levels.svg":     drawLevels,
	"docs/img/settle.svg":     drawSettle,
}

func main() {
	for path, draw := range pictures {
		picture, err := draw()
		if err == nil {
			err = os.WriteFile(path, picture, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "pictures:", err)
			os.Exit(1)
		}
	}
}
