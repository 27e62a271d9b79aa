#!/usr/bin/env bash
# lanes.sh NAME… makes each lane in turn, stops at the first that fails, and ends with the time of each and the slowest tests.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf bin/lanes
summary=() failed=
for lane in "$@"; do
  start=$SECONDS
  "${MAKE:-make}" --no-print-directory "$lane" || failed=$lane
  summary+=("$(printf '%-14s %-6s %5d s' "$lane" "$([ "$failed" = "$lane" ] && echo FAILED || echo passed)" $((SECONDS - start)))")
  [ -z "$failed" ] || break
done

echo
echo "Slowest packages and tests:"
find bin/lanes -name '*.log' -exec awk -f "$here/slowest.awk" {} + 2> /dev/null | sort -rn | head -n 12 || true
echo
echo "Lanes:"
printf '  %s\n' "${summary[@]}"
if [ "$failed" ]; then
  echo "make test: lane $failed failed"
  exit 1
fi
echo "make test: all lanes passed after $SECONDS s"
