#!/usr/bin/env bash
# Fetches promtool for `make promtool`: Debian's package prometheus, unpacked into .cache/promtool and not installed, so that no server starts.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x .cache/promtool/promtool ] && exit 0
if command -v promtool >/dev/null; then
  mkdir -p .cache/promtool
  ln -sf "$(command -v promtool)" .cache/promtool/promtool
  exit 0
fi
command -v apt-get >/dev/null || {
  echo "promtool-install: promtool is not here, and there is no apt-get: install Prometheus yourself" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for try in 1 2 3 4; do
  echo "promtool-install: Debian's prometheus (attempt $try of 4)"
  (cd "$work" && apt-get download -qq prometheus) && break
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq || true
  sleep $((try * 2))
done
dpkg -x "$work"/prometheus_*.deb "$work/x"
mkdir -p .cache/promtool
mv "$work/x/usr/bin/promtool" .cache/promtool/promtool
.cache/promtool/promtool --version | head -n 1
