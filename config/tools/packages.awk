# Of `go test -v`: one line a package that passes, everything of a package that fails. Go prints a package's lines together and
# its verdict last.
/^ok / { print; held = ""; next }
/^(\?|-) |no test files\]$|\[no tests to run\]$/ { held = ""; next }
/^\t.*coverage: 0.0% of statements$/ { held = ""; next }
/^FAIL\t/ { printf "%s", held; print; held = ""; next }
/^(=== (RUN|PAUSE|CONT|NAME)|PASS$)/ { next }
/^ *--- (PASS|SKIP): / && !/--- SKIP/ { next }
{ held = held $0 "\n" }
END { printf "%s", held }
