#!/usr/bin/env bash
# tool.sh NAME prints the path of the pinned tool NAME, building it first when it is not in the cache yet.
# NAME is the last element of a path in a "tool" directive of go.mod here, or of NAME/go.mod where the tool's dependencies
# would pull the others' along. The cache is keyed by the go.mod, the go.sum and the Go version, and lies outside the checkout.
set -euo pipefail
name=${1:?name of a tool}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=$here
[ -f "$here/$name/go.mod" ] && module=$here/$name

key=$({ go env GOVERSION GOOS GOARCH; cat "$module/go.mod" "$module/go.sum"; } | sha256sum | cut -c1-16)
cache=${PROXYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/proxyard}/tools/$key
if [ ! -x "$cache/$name" ]; then
  mkdir -p "$cache"
  # One builder at a time, and the binary appears under its name only when it is whole.
  exec 9> "$cache/$name.lock"
  flock 9
  if [ ! -x "$cache/$name" ]; then
    package=$(cd "$module" && go list tool | grep -E "/$name\$") || { echo "tool.sh: $module/go.mod has no tool $name" >&2; exit 1; }
    echo "==> building $name, once for this pin" >&2
    start=$SECONDS
    (cd "$module" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false nice -n 10 go build -trimpath -o "$cache/$name.part" "$package")
    mv "$cache/$name.part" "$cache/$name"
    echo "    $name built in $((SECONDS - start)) s" >&2
  fi
fi
echo "$cache/$name"
