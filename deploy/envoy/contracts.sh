#!/bin/sh
# Contracts in git. "contracts.sh check", in CI, says what contracts.csv would change, and fails if a line
# has a mistake. "contracts.sh import", on merge, does it. SLUICE_REDIS is Redis, "host:port"; whoever
# imports needs a user of Redis that may write overrides (docs/operations.md).
set -eu
cd "$(dirname "$0")"
export SLUICE_CONFIG="${SLUICE_CONFIG:-contracts.yaml}"
case "${1:-}" in
check)
	sluice override import contracts.csv --prune --dry-run
	sluice override diff contracts.csv --prune || [ $? = 1 ] # 1: there is something to change
	;;
import)
	sluice override import contracts.csv --prune
	;;
*)
	echo "want: contracts.sh check, or contracts.sh import" >&2
	exit 2
	;;
esac
