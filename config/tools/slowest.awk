# Of the logs of `go test -v`: "seconds name" of every package and of every top-level test.
/^ok / && $3 ~ /s$/ { sub(/s$/, "", $3); printf "%9.2f  package  %s\n", $3, $2 }
/^--- (PASS|FAIL): / { t = $4; gsub(/[()s]/, "", t); printf "%9.2f  test     %s\n", t, $3 }
