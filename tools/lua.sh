#!/usr/bin/env bash
# Provides .tools/bin/lua5.4, under which the scripts are tested as well as under Redis' own
# Lua 5.1: the one on PATH, else Debian's.
. "$(dirname "$0")/lib.sh"

alternative="put lua5.4 on PATH"
command -v lua5.4 >/dev/null || packages lua5.4
link "$(command -v lua5.4)" bin/lua5.4
"$tools/bin/lua5.4" -v | grep -q 'Lua 5\.4' || die "$tools/bin/lua5.4 is not Lua 5.4; $alternative"
