#!/usr/bin/env bash
# Builds the release into dist/ (or the folder given): for each target an archive with the binary, man pages, completions, unit file
# and licence, its bill of materials, and SHA256SUMS over all of them. The same commit gives the same bytes. Needs Go, GNU tar and,
# where the module cache is cold, the module proxy; nothing else is asked.
#
#   packaging/release.sh [FOLDER]
#   TARGETS="linux/arm64" VERSION=v1.2.3 packaging/release.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 LC_ALL=C
out=${1:-dist}
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
date=${DATE:-$(git log -1 --format=%cI 2>/dev/null || date -u +%Y-%m-%dT%H:%M:%SZ)}
SOURCE_DATE_EPOCH=$(date -d "$date" +%s)
export SOURCE_DATE_EPOCH # of the man pages
binary_bytes_max=${BINARY_BYTES_MAX:-40000000}

fail() {
  echo "release: $*" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build FILE: this machine's own target unless GOOS and GOARCH say otherwise.
build() {
  go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version -X main.commit=$commit -X main.date=$date" -o "$1" ./cmd/warmpath
}

# What is the same for every target: made by the program itself.
same=$work/same
mkdir -p "$same/man" "$same/completions"
build "$work/own"
"$work/own" completion bash >"$same/completions/warmpath.bash"
"$work/own" completion zsh >"$same/completions/_warmpath"
"$work/own" completion fish >"$same/completions/warmpath.fish"
go test -count=1 -run '^TestEveryCommandHasAManPage$' ./cmd/warmpath -args -man "$same/man" >"$work/man.log" || fail "the man pages: $(cat "$work/man.log")"
cp LICENSE README.md CHANGELOG.md "$same/"

# A folder of an earlier release is emptied, any other is left alone.
if [ -e "$out" ] && [ ! -e "$out/SHA256SUMS" ] && [ -n "$(ls -A "$out")" ]; then
  fail "$out holds something that is no release; name another folder"
fi
rm -rf "$out"
mkdir -p "$out"

for target in $targets; do
  os=${target%/*} arch=${target#*/}
  name=warmpath_${version}_${os}_${arch}
  folder=$work/$name
  cp -R "$same" "$folder"
  GOOS=$os GOARCH=$arch build "$folder/warmpath"
  bytes=$(wc -c <"$folder/warmpath")
  [ "$bytes" -le "$binary_bytes_max" ] || fail "$target: the binary has $bytes bytes, more than $binary_bytes_max (BINARY_BYTES_MAX)"
  # A binary that needs a C library would not start in an empty image.
  go version -m "$folder/warmpath" | grep -q 'build.CGO_ENABLED=0' || fail "$target: the binary is not static"
  [ "$os" != linux ] || cp packaging/warmpath.service packaging/warmpath.socket packaging/haproxy.cfg "$folder/"
  go run ./packaging/sbom -binary "$folder/warmpath" -version "$version" -date "$date" >"$out/$name.cdx.json"
  tar --sort=name --mtime="$date" --owner=0 --group=0 --numeric-owner --mode='u+rwX,go+rX,go-w' -C "$work" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
  echo "release: $out/$name.tar.gz, binary $bytes bytes"
done
(cd "$out" && sha256sum -- *.tar.gz *.cdx.json >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" SHA256SUMS)
echo "release: $out/SHA256SUMS"
