#!/usr/bin/env bash
# verify.sh CHECK… runs the checks of `make verify` by name and reports all that fail, not only the first.
set -euo pipefail
here=config/tools

# Generated files are what the sources generate.
generated() {
  local fresh
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' RETURN
  "$here/generate.sh" "$fresh"
  local stale=0 file
  while read -r file; do
    diff -u "$file" "$fresh/$file" || stale=1
  done < <(cd "$fresh" && find . -type f)
  [ "$stale" = 0 ] || { echo "generated files are stale: run make generate and commit the result"; return 1; }
}

# Every go.mod is as go mod tidy would leave it.
tidy() {
  local mod untidy=0
  while read -r mod; do
    (cd "$(dirname "$mod")" && go mod tidy -diff) || { echo "$mod is not tidy"; untidy=1; }
  done < <(find . -name go.mod -not -path './.git/*')
  return "$untidy"
}

lint() { "$here/lint.sh"; }

# Known vulnerabilities that the product's code reaches. Without the database that is unknown, which is said and is no failure.
vulnerabilities() {
  local tool out status=0
  tool=$("$here/tool.sh" govulncheck)
  out=$(timeout 300 "$tool" ./... 2>&1) || status=$?
  if [ "$status" = 0 ]; then
    return 0
  elif grep -qE 'vuln\.go\.dev|fetching vulnerabilities' <<< "$out" && ! grep -q '^Vulnerability #' <<< "$out"; then
    echo "    skipped: the vulnerability database https://vuln.go.dev cannot be reached from here"
    return 0
  fi
  echo "$out"
  return 1
}

# The change log exists and has a place for the next release.
changelog() {
  grep -q '^## Unreleased' CHANGELOG.md || { echo 'CHANGELOG.md has no "## Unreleased"'; return 1; }
}

# Every relative link in the documentation leads to a file.
links() {
  local page target broken=0
  while IFS=' ' read -r page target; do
    [ -e "$(dirname "$page")/$target" ] || { echo "$page: link to $target leads nowhere"; broken=1; }
  done < <(find README.md CHANGELOG.md docs -name '*.md' -exec grep -oHE '\]\([^)# ]+' {} + | sed 's/:\](/ /' | grep -vE ' [a-z]+:')
  return "$broken"
}

failed=()
for check in "$@"; do
  start=$SECONDS
  echo "==> verify $check"
  # A subshell with its own errexit: called in a condition, the functions' own would be off.
  set +e
  (set -e; "$check")
  status=$?
  set -e
  [ "$status" = 0 ] || failed+=("$check")
  echo "    $([ "$status" = 0 ] && echo ok || echo FAILED) after $((SECONDS - start)) s"
done
if [ "${#failed[@]}" != 0 ]; then
  echo "make verify: failed: ${failed[*]}"
  exit 1
fi
echo "make verify: all checks passed after $SECONDS s"
