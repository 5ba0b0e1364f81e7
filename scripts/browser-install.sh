#!/usr/bin/env bash
# Installs the browser that `make e2e` opens the replay's page in: Debian's chromium, of the version in e2e/browser.txt. Debian keeps the
# newest build of a release only, so when that version has gone from the archive the release's present one is taken, and said so.
set -euo pipefail
cd "$(dirname "$0")/.."

pin=$(cat e2e/browser.txt)
version() { chromium --version 2>/dev/null | grep -o '[0-9][0-9.]*' | head -n 1; }
wanted=${pin#*=}
if have=$(version) && [ "${have%%.*}" -ge "${wanted%%.*}" ]; then
  exit 0
fi
command -v apt-get >/dev/null || {
  echo "browser-install: chromium ${wanted%%.*} or later is not here, and there is no apt-get: install it yourself" >&2
  exit 1
}
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
for try in 1 2 3 4; do
  echo "browser-install: $pin (attempt $try of 4)"
  "${as_root[@]}" apt-get update -qq || true
  install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
  if "${install[@]}" "$pin"; then
    break
  elif "${install[@]}" chromium; then
    echo "browser-install: $pin is not in the archive; took $(version) instead, so e2e/browser.txt is due" >&2
    break
  fi
  sleep $((try * 5))
done
if ! have=$(version) || [ "${have%%.*}" -lt "${wanted%%.*}" ]; then
  echo "browser-install: chromium ${wanted%%.*} or later could not be installed; is the package index reachable?" >&2
  exit 1
fi
