#!/usr/bin/env bash
# lint.sh [run|fmt] ARGS… runs the pinned golangci-lint over the module.
set -euo pipefail
tool=$(config/tools/tool.sh golangci-lint)
command=${1:-run}
[ $# = 0 ] || shift
CGO_ENABLED=0 "$tool" "$command" "$@"
