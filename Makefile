# Sluice. "make help" lists what there is to make.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/.tools/bin:$(PATH)

# ENVOY_VERSION=1.36.4 uses that Envoy (tools/envoy.txt lists them) in place of the default.
ifdef ENVOY_VERSION
export ENVOY_VERSION
export ENVOY := $(CURDIR)/.tools/envoy/$(ENVOY_VERSION)/envoy
endif
# STORE=local makes "make run" work without Redis.
export STORE
# FUZZTIME is how long "make fuzz" spends on each target.
export FUZZTIME ?= 30s
# What "make bench" does: ROUNDS of measurements of SECONDS each. PUBLISH=1 has the documents show the
# results, of ROUNDS=7 or more on a quiet machine; BEFORE=other.wasm compares this build with another one only.
ROUNDS ?= 5
SECONDS ?= 4

wasm := build/sluice.wasm
wasm_sources := Makefile go.mod go.sum $(wildcard tools/proxywasm*.json) tools/tinygo/collector.patch tools/plugin.work \
	$(shell find tools/plugin plugin algo redisresp -type f -not -name '*_test.go' -not -path '*/testdata/*')
# The build's own version: that of what is released, packed or pushed. Anything else is "dev".
wasm_version = $(if $(filter release image push,$(MAKECMDGOALS)),$(VERSION),dev)
# When garbage is collected: where a callback ends (docs/decisions/0029-collector.md), with "stress" at
# the end of each, with "precise" by TinyGo's own collector inside any allocation.
COLLECTOR ?= callbacks
collector_callbacks := -gc=leaking -tags 'custommalloc safepoints$(and $(tag), $(tag))'
collector_stress := -gc=leaking -tags 'custommalloc safepoints gcstress'
collector_precise := -gc=precise -tags custommalloc
collector = $(or $(collector_$(COLLECTOR)),$(error COLLECTOR=$(COLLECTOR): want callbacks, stress or precise))
wasm_build = tinygo build -target=$(CURDIR)/.tools/proxywasm.json -buildmode=c-shared $(collector) -opt=s -panic=trap -no-debug -o $(CURDIR)/$@
# tools/plugin.work leaves out what gjson would bring along for nothing.
plugin_build = GOWORK=$(CURDIR)/tools/plugin.work $(wasm_build)
# What formats as fmt does, so that vet looks at its formats too.
vet_printf := -printf.funcs=github.com/sluiceproxy/sluice/plugin/message.Sprintf,github.com/sluiceproxy/sluice/plugin/message.Errorf
go_files = $$(find . -name '*.go' -not -path './.tools/*')
linters_stamp := .tools/linters-$(shell go env GOVERSION).stamp
modules := $(dir $(shell find . -name go.mod -not -path './.tools/*'))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

# What each kind of work needs, under .tools/ where the system lacks it.
.PHONY: tools-build
tools-build:
	@tools/setup.sh cc tinygo

.PHONY: tools-run
tools-run: tools-build
	@tools/setup.sh envoy redis

.PHONY: tools
tools: tools-run ## install all that tests need under .tools/: TinyGo, Envoy, Redis, Lua 5.4, Prometheus, Chromium and LLM clients
	@tools/setup.sh lua wasm-opt prometheus chromium sdk

.PHONY: build
build: $(wasm) ## build the plugin, build/sluice.wasm

$(wasm): $(wasm_sources) build/version | tools-build
	$(plugin_build) -ldflags "-X main.version=$(wasm_version)" ./plugin

# It changes with the version and the collector alone.
build/version: FORCE
	@mkdir -p $(@D)
	@echo '$(wasm_version) $(COLLECTOR)' | cmp -s - $@ || echo '$(wasm_version) $(COLLECTOR)' > $@

.PHONY: FORCE
FORCE:

# The bridge, for Envoy's configuration itself. What it compiles to is kept in the
# repository, since only those who change it need a compiler for C.
.PHONY: bridge
bridge: | tools-build ## compile the bridge anew, bridge/bridge.wasm, and put it into what ships
	$(bridge_build) -o bridge/bridge.wasm bridge/bridge.c
	chmod -x bridge/bridge.wasm
	sed -i -E "s|(inline_bytes: )[A-Za-z0-9+/=]+|\1$$(base64 -w 0 bridge/bridge.wasm)|" envoy.yaml deploy/*/*.yaml deploy/chart/templates/_helpers.tpl

clang := $(firstword $(wildcard /usr/lib/llvm-19/bin/clang) clang)
bridge_build = $(clang) --target=wasm32 -Oz -ffreestanding -nostdlib -mbulk-memory -Wall -Wextra -Wno-unused-parameter -Werror \
	-Wl,--no-entry,-s,--stack-first,-z,stack-size=4096

# For the benchmark of what metrics cost.
build/sluice-without-metrics.wasm: tag = withoutmetrics
build/sluice-without-metrics.wasm: $(wasm_sources) | tools-build
	@mkdir -p $(@D)
	$(plugin_build) ./plugin

# For the benchmark of what any Wasm filter costs.
build/empty.wasm: COLLECTOR = precise
build/empty.wasm: $(wildcard bench/empty/*.go) bench/go.mod bench/go.sum $(wildcard tools/proxywasm*.json) | tools-build
	@mkdir -p $(@D)
	cd bench && $(wasm_build) ./empty

# What the programs of cmd/sluice are called in their own --version.
cli_build = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
cli_platforms := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64

.PHONY: cli
cli: ## build the command line, build/sluice
	$(cli_build) -o build/sluice ./cmd/sluice

.PHONY: run
run: build tools-run ## start Redis, an upstream and Envoy with envoy.yaml, and show decisions (STORE=local: no Redis)
	@go build -o build/demo ./cmd/demo
	@exec build/demo

# The race detector takes several times as long, and finds something where programs have goroutines of
# their own: what is built for Envoy has none, as a worker is one thread. What tests start, and luabench,
# with which all algorithms would be compiled anew, is looked at every night, by "make race".
with_goroutines = $$(go list $$(grep -rlE '\bgo func|\.Go\(func' --include='*.go' --exclude='*_test.go' --exclude-dir=luabench cmd deploy internal | \
	xargs -n1 dirname | sort -u | sed 's|^|./|'))
without_envoy = $$(go list ./... | grep -v '/sluice/e2e')
# They start first, so that no processor waits for one of them in the end.
longest := ./deploy/envoy ./deploy/relay ./plugin ./cmd/sluice ./algo
# "make lint" vets more than go test does.
go_test := go test -vet=off -timeout 30m

# The tests of real Envoys wait most of the time, so that several run at once, and together with the others.
.PHONY: test
test: build tools ## run every test
	@$(MAKE) --no-print-directory -j2 -Otarget e2e test-units

.PHONY: test-units
test-units: build tools ## run every test but those of e2e/
	$(go_test) -parallel 4 $(longest) $$(grep -vxF "$(with_goroutines)" <<<"$(without_envoy)")
	$(go_test) -race $(with_goroutines)
	cd bench && $(go_test) ./...

.PHONY: race
race: build tools ## run the tests with the race detector that "make test" runs without
	$(go_test) -race $(without_envoy)

# RELAY=1 puts a relay into every direct way to Redis. Left out are the tests of a limiter that logs
# in to Redis itself, which behind a relay it does not. So are the upgrade of bridges, of which a relay has
# none, what the first line of a log and metrics say of a direct Redis, and what doctor finds of one (behind
# a relay it looks at the relay: TestDoctorOfMatcher).
export RELAY
relay_skips = ^Test(DocumentedACL|UserOfEachNamespace|TrialOfRedis|Upgrade|DoctorOfEnvoy|DoctorOfWrongPort|OperatorsView|RedisHealth|ReloadIsCounted)$$|^TestPlain$$/^(password-from|wrong-password|turn-it-off)|^TestSupportPage$$/^one_Redis,_with_a_password$$

.PHONY: upstreams
upstreams: build tools ## compare what Flask, Django, FastAPI, Express and Go read of a request with what Sluice does
	@tools/upstreams.sh
	UPSTREAMS=$(CURDIR)/.tools/upstreams $(go_test) -tags upstreams -run '^TestUpstreams$$' -v ./e2e

.PHONY: e2e
e2e: build tools ## test on real Envoy and Redis only (ENVOY_VERSION=1.36.4: on that Envoy, RELAY=1: through a relay)
	$(go_test) -parallel 5 $(if $(RELAY),-skip '$(relay_skips)' -count 1) ./e2e

# SOAK is how long "make soak" goes on.
export SOAK ?= 10m

.PHONY: soak
soak: build tools ## put one Envoy through all faults again and again for SOAK (10m), and through a thousand updates
	go test -tags soak -timeout 60m -count 1 -run 'Soak$$' -v ./e2e

.PHONY: test-matrix
test-matrix: build tools ## run the tests that use Redis on Redis 8 and Valkey 8
	@tools/redis-matrix.sh
	for server in redis-8 valkey-8; do \
		echo "== $$server"; \
		REDIS_SERVER=$(CURDIR)/.tools/$$server/redis-server REDIS_CLI=$(CURDIR)/.tools/$$server/redis-cli \
			go test -p 1 -timeout 30m ./algo/... ./internal/redistest/... ./e2e/...; \
	done

# A failure names its seed. SEED and STEPS have it again, or go on from there; KEEP is a file for its
# operations, as few of them as fail. The gate simulates the
# same seeds each time; here half of them are fresh.
.PHONY: simulate
simulate: ## the whole plugin under random requests and faults, on virtual time (STEPS=100000, SEED=: one that failed)
	SIMULATE_SEED=$(SEED) SIMULATE_FRESH=$(if $(SEED),,1) SIMULATE_STEPS=$(or $(STEPS),100000) \
		SIMULATE_KEEP=$(abspath $(KEEP)) \
		go test ./plugin -count 1 -run 'TestSimulate$$' -v

.PHONY: mutants
mutants: ## break the plugin in one way after the other: make simulate must notice each
	@tools/mutants.sh

# These modules are checked here alone, as that takes what compiles and downloads for minutes.
# Go's cache of test results would not notice a change of deploy/ or of the plugin. Two at once, since
# Envoy Gateway's tests run one after another and wait, and linking a control plane takes one processor.
mesh_modules := mesh/istio mesh/envoygateway mesh/render mesh/meshtest tools/image

.PHONY: test-mesh
test-mesh: build tools linters ## test deploy/istio and deploy/envoy-gateway on their control planes (the first time for minutes)
	@$(MAKE) --no-print-directory -j2 -Otarget $(mesh_modules)

.PHONY: $(mesh_modules)
$(mesh_modules):
	cd $@ && go mod tidy -diff && go vet ./... && staticcheck ./... && go test -count 1 ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (30s)
	@tools/fuzz.sh

.PHONY: bench-lua
bench-lua: tools ## what a check costs Redis, beside redis_rate (REDIS_SERVER=... on that server, PUBLISH=1: show it in the documents)
	@go run ./cmd/luabench$(if $(PUBLISH), -publish)

# The algorithms as WebAssembly, in a file that a page opened from disk may load.
.PHONY: playground
playground: tools-build ## compile the algorithms for docs/playground anew
	@mkdir -p build
	tinygo build -target=$(CURDIR)/.tools/proxywasm.json -buildmode=c-shared -gc=conservative -opt=z -no-debug -o build/playground.wasm ./cmd/playground
	{ printf '// Made by "make playground" of cmd/playground.\nconst ALGO_WASM = "'; gzip -9nc build/playground.wasm | base64 -w 0; printf '";\n'; } > docs/playground/algo.js

# The tzdata of this Go. Its release is named in docs/configuration.md.
.PHONY: zones
zones: ## make the time zones that come with the plugin anew
	go run ./cmd/zones

# GOLDEN=1 has a test write what it would compare (testenv.Golden).
.PHONY: golden
golden: ## write the files anew that tests compare with what the code makes; read the difference
	GOLDEN=1 go test -count 1 -run '^(TestScriptText|TestExamples|TestPage|TestConversations|TestScripts|TestSchema|TestReference)$$' \
		./algo ./cmd/sluice ./cmd/sluice/convert ./internal/bounds ./plugin/redis ./plugin/config
	git diff --stat

.PHONY: pictures
pictures: ## draw docs/img/bench.svg anew; the others are drawn once
	cd bench && go run . -show results/published.json

.PHONY: footprint
footprint: build tools-run ## measure what Sluice costs a proxy: CPU to start, and memory (ROUNDS=5 processes of each, LATER=310s: so long after their start, PUBLISH=1: show it in the documents)
	@cd bench && go run . -footprint -rounds $(ROUNDS)$(if $(LATER), -later $(LATER))$(if $(PUBLISH), -publish)

.PHONY: bench
bench: build build/empty.wasm bench-tools ## measure Sluice beside its peers (ROUNDS=1 SECONDS=2: a quick look; ROUNDS=7 PUBLISH=1; BEFORE=other.wasm)
	cd bench && go run . -rounds $(ROUNDS) -seconds $(SECONDS)$(if $(BEFORE), -before $(abspath $(BEFORE)))$(if $(PUBLISH), -publish)

# Instructions do not depend on what else the machine does, and hardly on which machine it is.
.PHONY: count
count: build build/sluice-without-metrics.wasm build/empty.wasm tools-run ## count the instructions of a request (SETUPS=none,sluice: of some; PUBLISH=1: record and show them)
	@tools/h2load.sh
	@tools/valgrind.sh
	cd bench && go run . -count $(or $(SETUPS),all)$(if $(PUBLISH), -publish)

.PHONY: count-check
count-check: build tools-run ## hold the instructions of the usual request to those that are recorded
	@tools/h2load.sh
	@tools/valgrind.sh
	cd bench && go run . -count none,sluice,sluice-readme -check

.PHONY: bench-tools
bench-tools: | tools
	@tools/h2load.sh

.PHONY: fmt
fmt: linters ## format the Go code
	gofumpt -w $(go_files)

.PHONY: fmt-check
fmt-check: linters
	@unformatted=$$(gofumpt -l $(go_files)); \
	if [[ -n $$unformatted ]]; then echo "not formatted, run 'make fmt':" $$unformatted; exit 1; fi

.PHONY: lint
lint: linters ## vet, staticcheck, long lines, functions and conditions, how far a request's code jumps, the direction of imports, the workflows
	go vet -tags soak $(vet_printf) ./...
	staticcheck -tags soak ./...
	cd bench && go vet ./... && staticcheck ./...
	cd tools && go vet ./style ./walk && staticcheck ./style ./walk && go test ./style ./walk && go run ./style && go run ./walk
	@tools/imports.sh
	@tools/mutants.sh -n
	@tools/workflows.sh

# mesh/ is left out: it has what tests need, and ships nothing.
.PHONY: vulncheck
vulncheck: ## known vulnerabilities that the code of what ships, or of the benchmark, reaches (asks vuln.go.dev)
	@failed=0; for module in .. image ../bench; do \
		go tool -C tools govulncheck -C "$$module" ./... || failed=1; \
	done; exit "$$failed"

.PHONY: tidy-check
tidy-check:
	@for module in $(filter-out ./mesh/%,$(modules)); do (cd $$module && go mod tidy -diff); done

# The gate. What is quick to fail comes first; lint runs beside TinyGo, which takes one processor.
.PHONY: check
check: ## the gate: format, lint, tidy modules, every test
	@$(MAKE) --no-print-directory fmt-check
	@$(MAKE) --no-print-directory tidy-check
	@$(MAKE) --no-print-directory -j2 -Otarget lint build
	@SIMULATE_STEPS=100000 $(MAKE) --no-print-directory test

# What is cached does not run again. Left out are the tests that start an Envoy; of the longest
# tests -short has a part (testenv.Stride).
of_envoy := ^Test(EnvoyAccepts|EnvoyAcceptsRelay|SuggestedOnEnvoy|Conformance|ExpressionConformance)$$
.PHONY: quick
quick: build fmt-check ## in a minute: format, vet, style, imports, and the tests that need no Envoy, of the longest a part
	go vet $(vet_printf) $$(go list ./... | grep -v /e2e)
	go run -C tools ./style
	@tools/imports.sh
	$(go_test) -short -skip '$(of_envoy)' ./algo/... ./redisresp/... ./plugin/... ./cmd/sluice/... ./internal/...

.PHONY: linters
linters: $(linters_stamp)

$(linters_stamp): tools/go.mod tools/go.sum
	@mkdir -p .tools/bin
	cd tools && GOBIN=$(CURDIR)/.tools/bin go install tool
	@touch $@

# VERSION names the image, the release and the plugin in them; the image's digest depends on it and
# on the plugin alone.
VERSION ?= $(shell git describe --tags --always --dirty)
image := go run -C tools/image . -wasm $(CURDIR)/$(wasm) -source $(CURDIR) -version $(VERSION)

.PHONY: image
image: build ## pack the plugin as an OCI image layout, build/image, and print its digest
	@$(image) -layout $(CURDIR)/build/image

.PHONY: push
push: build ## push the image: make push IMAGE=ghcr.io/you/sluice:v1
	@$(image) -push $(IMAGE)

# What sluice-deploy.tar.gz holds: the files to deploy, the documents, and what these link to.
release_files := deploy docs bridge README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md VERIFY.md LICENSE NOTICE envoy.yaml plugin/config/schema.json bench/README.md bench/results/published.md

.PHONY: release
release: build ## collect plugin, image, command line, bill of materials, schema, deploy/, documents and checksums under dist/
	rm -rf dist && mkdir -p dist
	$(image) -layout $(CURDIR)/build/image -sbom $(CURDIR)/dist/sluice.cdx.json > dist/image.digest
	cp $(wasm) plugin/config/schema.json LICENSE dist
	$(tar) -cf dist/sluice-image.tar -C build/image .
	$(tar) --exclude '*.go' -c $(release_files) | gzip -n > dist/sluice-deploy.tar.gz
	for platform in $(cli_platforms); do \
		GOOS=$${platform%-*} GOARCH=$${platform#*-} $(cli_build) -o dist/sluice-$$platform ./cmd/sluice; \
	done
	cd dist && sha256sum -- * > SHA256SUMS

# An archive that depends on names and contents alone.
tar := tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go=u,go-w

.PHONY: clean
clean: ## remove what was built; .tools/ stays
	rm -rf build dist
