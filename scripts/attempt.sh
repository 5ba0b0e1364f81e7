# shellcheck shell=bash
# attempt WHAT COMMAND...: runs a download up to four times, since they break; what already came stays in the caches of pip and npm.
# The name of the script that sources this stands in front of each line.
attempt() {
  local what=$1 try me
  me=$(basename "$0" .sh)
  shift
  for try in 1 2 3 4; do
    echo "$me: $what (attempt $try of 4)"
    if "$@"; then return 0; fi
    sleep $((try * 5))
  done
  echo "$me: $what failed four times; is the package registry reachable?" >&2
  return 1
}
