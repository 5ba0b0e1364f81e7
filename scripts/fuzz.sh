#!/bin/sh
# Runs every fuzz target there is, one after the other, for so many seconds each: fuzz.sh [seconds] [regexp of target or package].
# What breaks one is left in that package's testdata/fuzz, and is tried again by every `go test` from then on.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-20} only=${2:-.} ran=0 broken=''
for package in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do
	listed=$(go test -list '^Fuzz' "$package") || { echo "$listed" >&2; exit 1; }
	for target in $(echo "$listed" | grep '^Fuzz' || true); do
		echo "$package $target" | grep -Eq -e "$only" || continue
		ran=$((ran + 1))
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 5s "$package" || broken="$broken $package:$target"
	done
done
[ "$ran" -gt 0 ] || { echo "no fuzz target matches $only" >&2; exit 1; }
[ -z "$broken" ] || { echo "fuzz: $ran targets, broken:$broken" >&2; exit 1; }
echo "fuzz: $ran targets, $seconds s each, nothing broken"
