package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// allocators are functions of C libraries that hand out memory, and those that
// call them where it is least expected.
var allocators = []string{
	"malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "posix_memalign", "memalign",
	"malloc_usable_size",
	"dlmalloc", "dlcalloc", "dlrealloc", "dlfree", "dlmemalign", "emmalloc_malloc", "emmalloc_free",
	"__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free", "sbrk", "brk", "mmap", "strdup", "strndup",
	"getenv", "setenv", "putenv", "unsetenv", "__wasilibc_ensure_environ", "__wasilibc_initialize_environ",
	"opendir", "fopen", "fdopen", "open_memstream", "getdelim", "getline", "asprintf", "vasprintf",
	"qsort_r", "getaddrinfo",
}

// Two allocators on one memory overwrite each other. Whatever hands out memory
// has to get it from somewhere: only Go's runtime may ask the host for it.
// docs/decisions/0006-one-allocator.md.
func TestOneAllocator(t *testing.T) {
	t.Parallel()
	module, err := readWasm(testenv.Wasm(t))
	if err != nil {
		t.Fatal(err)
	}
	growing := 0
	for _, f := range module.Functions {
		switch {
		case f.Name == "":
			t.Fatal("the plugin was built without names: this test shows nothing")
		case slices.Contains(allocators, f.Name):
			t.Errorf("%s is linked", f.Name)
		case f.Grows && strings.HasPrefix(f.Name, "runtime."):
			growing++
		case f.Grows:
			t.Errorf("%s grows the memory", f.Name)
		}
	}
	if growing == 0 {
		t.Error("nothing grows the memory: this test shows nothing")
	}
}

// What Envoy compiles when it loads the plugin is every function, called or not, for each proxy of
// a mesh: about 1.8 us of CPU for each byte of code. docs/decisions/0023-small-module.md.
const (
	mostCode  = 470_000 // bytes
	mostPages = 9       // of 64 KiB, which each VM has from its start
)

// unwanted are packages that are too large for what they would do here, in names of functions:
// "fmt.Sprintf", "(*encoding/json.decodeState).value", "crypto/internal/fips140/aes.init". So are
// libc's printf and its cipher, and each further sort.
var unwanted = regexp.MustCompile(
	`(^|[^/\w])(fmt|internal/fmtsort|encoding/json|encoding/gob|encoding/xml|reflect|text/template|crypto(/[\w/]+)?)\.` +
		`|^(printf_core|chacha20_\w+|slices\.pdqsort.*)$`,
)

func TestFootprint(t *testing.T) {
	t.Parallel()
	module, err := readWasm(testenv.Wasm(t))
	if err != nil {
		t.Fatal(err)
	}
	if module.CodeBytes > mostCode {
		t.Errorf("%d bytes of code, want at most %d", module.CodeBytes, mostCode)
	}
	if module.MemoryPages > mostPages {
		t.Errorf("%d pages of memory at the start, want at most %d", module.MemoryPages, mostPages)
	}
	for _, f := range module.Functions {
		if unwanted.MatchString(f.Name) {
			t.Errorf("%s is linked", f.Name)
		}
	}
}

// The pattern finds what it is for, and nothing of ours.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"fmt.Sprintf":                                     true,
		"(*fmt.pp).printValue":                            true,
		"(*encoding/json.decodeState).value":              true,
		"slices.pdqsortCmpFunc[encoding/json.field]":      true,
		"crypto/internal/fips140/aes.init#1$1":            true,
		"(reflect.Value).Kind":                            true,
		"printf_core":                                     true,
		"slices.pdqsortOrdered[uint32]":                   true,
		"internal/reflectlite.TypeOf":                     false,
		"github.com/sluiceproxy/sluice/plugin/sha256.New": false,
		"runtime.alloc":                                   false,
	} {
		if got := unwanted.MatchString(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// plainExports are functions that the host does not know: the start of the runtime,
// and what LLVM may call where a target lacks an instruction.
var plainExports = []string{"_initialize", "fminimum", "fminimumf", "fmaximum", "fmaximumf"}

// What the plugin takes from the host, and what it shows. Each function of WASI is a way into libc:
// one that is new here needs a look at what else it brings in.
func TestImportsAndExports(t *testing.T) {
	t.Parallel()
	r := wazero.NewRuntime(t.Context())
	defer r.Close(t.Context())
	module, err := r.CompileModule(t.Context(), testenv.Wasm(t))
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]map[string]bool{}
	for _, f := range module.ImportedFunctions() {
		from, name, _ := f.Import()
		if imports[from] == nil {
			imports[from] = map[string]bool{}
		}
		imports[from][name] = true
	}
	wasi := []string{
		"args_get", "args_sizes_get", // the runtime, into Go's memory
		"clock_time_get",                   // steadyMicros
		"environ_get", "environ_sizes_get", // environment, into Go's memory
		"random_get", // arc4random, into a Go variable
	}
	if got := slices.Sorted(maps.Keys(imports["wasi_snapshot_preview1"])); !slices.Equal(got, wasi) {
		t.Errorf("of WASI %q is imported, want %q", got, wasi)
	}
	for name := range imports["env"] {
		if !strings.HasPrefix(name, "proxy_") {
			t.Errorf("env.%s is imported: a function that nothing defines", name)
		}
	}
	for name := range module.ExportedFunctions() {
		if !strings.HasPrefix(name, "proxy_") && !slices.Contains(plainExports, name) {
			t.Errorf("%s is exported, which Envoy does not call", name)
		}
	}
	if len(imports) != 2 {
		t.Errorf("imports come from %q, want wasi_snapshot_preview1 and env", slices.Sorted(maps.Keys(imports)))
	}
}
