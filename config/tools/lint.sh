#!/usr/bin/env bash
# lint.sh [run|fmt] ARGS… runs the pinned golangci-lint over the module. Several may run at a time.
set -euo pipefail
tool=$(config/tools/tool.sh golangci-lint)
command=${1:-run}
[ $# = 0 ] || shift
[ "$command" != run ] || set -- --allow-parallel-runners "$@"
CGO_ENABLED=0 "$tool" "$command" "$@"
