#!/usr/bin/env bash
# lane.sh NAME ARGS… runs `go test -v ARGS…` as the lane NAME: everything go test says is kept in bin/lanes/NAME.log; shown is one
# line a package, and all of it of a package that fails. With LIVE=1 every line is shown as it comes (real boots take minutes).
set -euo pipefail
name=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
log=bin/lanes/$name.log
mkdir -p bin/lanes

echo "==> lane $name: go test $*"
start=$SECONDS
status=0
if [ "${LIVE:-}" ]; then
  go test -v "$@" < /dev/null 2>&1 | tee "$log" || status=$?
else
  go test -v "$@" < /dev/null 2>&1 | tee "$log" | awk -f "$here/packages.awk" || status=$?
fi
result=passed
[ "$status" = 0 ] || result="FAILED, whole output in $log"
echo "==> lane $name: $result after $((SECONDS - start)) s"
exit "$status"
