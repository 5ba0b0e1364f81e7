#!/usr/bin/env bash
# Profiles the saturated router and writes the top 20 into docs/PERFORMANCE.md, each with what it is (profile-notes.tsv). Fails when a
# function is not described, or one that could be done without takes 5 % or more of the CPU. In some 20 seconds; PROFILE_SECONDS=30 for longer.
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/PERFORMANCE.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PPROF_TMPDIR=$folder

bin/warmpath bench profile --window "${PROFILE_SECONDS:-15}s" --pprof "$folder"
go tool pprof -top -nodecount=20 -nodefraction=0 "$folder/saturated.prof" >"$folder/top" 2>"$folder/said" || { cat "$folder/said" >&2; exit 1; }
failed=0
awk -v notes=scripts/profile-notes.tsv '
  BEGIN {
    FS = "\t"
    while ((getline < notes) > 0) if ($0 !~ /^#/ && NF == 2) { pattern[++n] = $1; words[n] = $2 }
    FS = " "
    print "| function | own | with callees | what it is |\n|---|---|---|---|"
  }
  !rows { rows = $1 == "flat"; next }
  {
    name = $6
    for (i = 7; i <= NF; i++) if ($i != "(inline)" && $i != "(partial-inline)") name = name " " $i
    sub(/^github.com\/warmpath\/warmpath\/internal\//, "", name)
    what = ""
    for (i = 1; i <= n && what == ""; i++) if (name ~ pattern[i]) what = words[i]
    if (what == "") { what = "not described"; bad = bad name " is not described in " notes "\n" }
    else if (sub(/^!/, "", what) == 0 && $2 + 0 >= 5) bad = bad name " takes " $2 ", 5 % are the limit\n"
    printf "| `%s` | %s | %s | %s |\n", name, $2, $5, what
  }
  END { printf "%s", bad > "/dev/stderr"; exit bad != "" }
' "$folder/top" >"$folder/table" || failed=1
awk -v table="$folder/table" '
  /^<!-- profile:end -->/ { inside = 0 }
  !inside { print }
  /^<!-- profile:begin -->/ { inside = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$page" >"$folder/page"
cat "$folder/page" >"$page"
cat "$folder/table"
if [ $failed = 1 ]; then echo "FAIL  profile: see above" >&2; exit 1; fi
echo "pass  profile: no single avoidable item takes 5 % or more; the table is in $page"
