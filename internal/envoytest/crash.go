package envoytest

import "strings"

// crashMarks are in the log lines of a crash: Envoy's own, a panic that TinyGo
// prints, and what proxy-wasm-cpp-host says of a guest that traps.
var crashMarks = []string{
	"Caught Segmentation fault",
	"Caught Aborted",
	"assert failure",
	"panic:",
	"RuntimeError",
	"in-VM backtrace",
}

// crashes returns the lines of a log that tell of a crash.
func crashes(log string) (lines []string) {
	for line := range strings.Lines(log) {
		for _, mark := range crashMarks {
			if strings.Contains(line, mark) {
				lines = append(lines, strings.TrimSpace(line))
				break
			}
		}
	}
	return lines
}
