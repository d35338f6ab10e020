#!/bin/bash -eu
# Compiles every fuzz target of the module, one binary each, as "make fuzz" finds them.
go get github.com/AdamKorcz/go-118-fuzz-build/testing
for dir in $(go list -f '{{.Dir}}' ./...); do
	for target in $(find "$dir" -maxdepth 1 -name '*_test.go' -exec sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' {} +); do
		package=$(go list "$dir")
		compile_native_go_fuzzer_v2 "$package" "$target" "$(basename "$package")_$target"
	done
done
