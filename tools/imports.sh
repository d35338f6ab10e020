#!/usr/bin/env bash
# Holds the direction of imports: plugin, cmd -> plugin/* -> algo, redisresp.
# Only package plugin may use the SDK; the two at the bottom use the standard
# library alone, and what TinyGo compiles uses gjson besides; nothing that ships
# uses internal/, but for CEL, YAML, SVG and the
# Redis of twins in cmd/sluice; and nothing uses cmd/.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)

# imports prints "package import" for each import of the code that ships, as
# it is built for tests and as TinyGo builds it.
imports() {
	local format='{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}'
	go list -f "$format" ./algo/... ./redisresp/... ./plugin/...
	GOOS=wasip1 GOARCH=wasm go list -tags tinygo -f "$format" ./algo/... ./redisresp/... ./plugin/...
	go list -f "$format" ./cmd/...
}

imports | sort -u | awk -v module="$module/" '
function bad(why) { print "imports: " $1 " imports " $2 ": " why; failed = 1 }
function under(path, dir) { return index(path "/", module dir "/") == 1 }
function standard(path) { return path !~ /^[^\/]*\./ }
function own(path) { return index(path "/", module) == 1 }
# rank is how high a package of the plugin stands: it may import only lower ones.
function rank(path,   name) {
	name = path; sub(module "plugin", "", name); sub(/^\//, "", name)
	if (name == "") return 9
	if (name == "decide") return 8
	if (name ~ /^(redis|local|deny|lease|slots)$/) return 7
	if (name == "rule") return 6
	if (name ~ /^(answer|calendar)$/) return 5
	if (name == "config") return 4
	if (name ~ /^config\//) return 3
	if (name ~ /^(metric|offenders|ipaddr|lru|override)$/) return 2
	if (name == "must") return 0
	return 1
}
function tool(path) { return under(path, "cmd") && !under(path, "cmd/sluice") }

under($1, "algo") && !standard($2) && !under($2, "algo") { bad("algo uses the standard library alone") }
under($1, "redisresp") && !standard($2) { bad("redisresp uses the standard library alone") }
under($1, "plugin") && under($2, "plugin") && rank($2) >= rank($1) { bad("imports point from higher packages to lower ones, see ARCHITECTURE.md") }
$2 ~ /\/proxy-wasm-go-sdk\// && $1 != module "plugin" { bad("only package plugin may use the SDK") }
under($1, "plugin") && !standard($2) && !own($2) && $2 !~ /\/(proxy-wasm-go-sdk|gjson)(\/|$)/ { bad("the plugin uses the SDK and gjson alone") }
under($2, "cmd") && !under($1, "cmd") { bad("cmd is for programs") }
under($2, "internal") && !tool($1) && !(under($1, "cmd/sluice") && $2 ~ "^" module "internal/(envoycel|svg|twinredis|yamltree)$") { bad("internal is for tests and for tools that do not ship") }
END { exit failed }
'

# The first block of go.mod names what the plugin ships, and nothing else.
ships() {
	GOOS=wasip1 GOARCH=wasm go list -deps -tags tinygo -f '{{with .Module}}{{if not .Indirect}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}{{end}}' ./plugin |
		sed '/^$/d' | sort -u
}
diff <(sed -n '/^\/\/ What the plugin ships/,/^)/s/^\t//p' go.mod | sort) <(ships) || {
	echo "imports: the first block of go.mod is not what ./plugin imports (< go.mod, > imports)"
	exit 1
}
