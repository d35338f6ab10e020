package main

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"os/exec"
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

// functions has the text of each function of the built plugin, by its name.
func functions(t *testing.T) map[string]string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), testenv.Tool(t, "wasm-opt"), "--all-features", "--print",
		testenv.WasmPath(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	escaped := regexp.MustCompile(`\\[0-9a-f]{2}`)
	unescape := func(code string) string {
		c, _ := hex.DecodeString(code[1:])
		return string(c)
	}
	texts := map[string]string{}
	for _, text := range strings.Split(string(module), "\n (func $")[1:] {
		name := strings.Trim(strings.Fields(text)[0], `"`) // newer versions quote names in place of escapes
		texts[escaped.ReplaceAllStringFunc(name, unescape)] = text
	}
	if texts["runtime.alloc"] == "" {
		t.Fatal("the plugin was built without names: this test shows nothing")
	}
	return texts
}

// Two allocators on one memory overwrite each other. Whatever hands out memory
// has to get it from somewhere: only Go's runtime may ask the host for it.
// docs/decisions/0006-one-allocator.md.
func TestOneAllocator(t *testing.T) {
	t.Parallel()
	growing := 0
	for name, text := range functions(t) {
		grows := strings.Contains(text, "(memory.grow")
		switch {
		case slices.Contains(allocators, name):
			t.Errorf("%s is linked", name)
		case grows && strings.HasPrefix(name, "runtime."):
			growing++
		case grows:
			t.Errorf("%s grows the memory", name)
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
	wasm := testenv.Wasm(t)
	// https://webassembly.github.io/spec/core/binary/modules.html: behind 8 bytes, each section has an id, its size
	// in LEB128 and its content.
	const codeSection = 10
	code := uint64(0)
	for rest := wasm[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		if rest[0] == codeSection {
			code = size
		}
		rest = rest[1+n+int(size):]
	}
	if code == 0 || code > mostCode {
		t.Errorf("%d bytes of code, want 1 to %d", code, mostCode)
	}
	for name := range functions(t) {
		if unwanted.MatchString(name) {
			t.Errorf("%s is linked", name)
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

// What the plugin takes from the host, and what it shows. Each function of WASI is a way into libc: one that is new
// here needs a look at what else it brings in. What is exported, Envoy calls:
//   - malloc, if there is one, in place of proxy_on_memory_allocate. It leaves what it has allocated to the guest, and
//     TinyGo's malloc counts that as in use for ever; what proxy_on_memory_allocate gives is garbage collected.
//   - proxy_on_grpc_receive_initial_metadata and proxy_on_grpc_receive_trailing_metadata inside proxy_grpc_stream,
//     see host_tinygo.go.
func TestImportsAndExports(t *testing.T) {
	t.Parallel()
	r := wazero.NewRuntime(t.Context())
	defer r.Close(t.Context())
	module, err := r.CompileModule(t.Context(), testenv.Wasm(t))
	if err != nil {
		t.Fatal(err)
	}
	var imports []string
	for _, f := range module.ImportedFunctions() {
		from, name, _ := f.Import()
		if from == "env" && strings.HasPrefix(name, "proxy_") {
			continue
		}
		imports = append(imports, from+"."+name)
	}
	slices.Sort(imports)
	const wasi = "wasi_snapshot_preview1."
	testenv.SameList(t, "imports that are no host calls of Envoy's", imports, []string{
		wasi + "args_get", wasi + "args_sizes_get", // the runtime, into Go's memory
		wasi + "clock_time_get",                          // steadyMicros
		wasi + "environ_get", wasi + "environ_sizes_get", // environment, into Go's memory
		wasi + "random_get", // arc4random, into a Go variable
	})
	testenv.SameList(t, "exports", slices.Sorted(maps.Keys(module.ExportedFunctions())), []string{
		"_initialize",                                    // the start of the runtime
		"fmaximum", "fmaximumf", "fminimum", "fminimumf", // what LLVM may call where a target lacks an instruction
		"proxy_abi_version_0_2_0", "proxy_on_configure", "proxy_on_context_create", "proxy_on_done",
		"proxy_on_grpc_close", "proxy_on_grpc_receive", "proxy_on_log", "proxy_on_memory_allocate",
		"proxy_on_request_headers", "proxy_on_response_headers", "proxy_on_tick", "proxy_on_vm_start",
	})
	if pages := module.ExportedMemories()["memory"].Min(); pages > mostPages {
		t.Errorf("%d pages of memory at the start, want at most %d", pages, mostPages)
	}
}
