#!/usr/bin/env bash
# Provides .tools/bin/chromium, for the test of docs/playground: the one on PATH,
# or else Debian's package.
. "$(dirname "$0")/lib.sh"

alternative="put chromium on PATH"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $browser ]]; then
	packages chromium
	browser=$(command -v chromium)
fi
link "$browser" bin/chromium
