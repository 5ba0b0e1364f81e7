#!/usr/bin/env bash
# Installs what `make e2e` opens pages in: Debian's chromium, of the version in e2e/browser.txt, and axe-core, which looks for what keeps people
# from using a page. Debian keeps the newest build of a release only: when that version has gone from the archive the present one is taken, and
# said so.
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/attempt.sh

axe=axe-core@4.14.1
if [ ! -f .cache/e2e-axe/"$axe" ]; then
  command -v npm >/dev/null || {
    echo "browser-install: npm is needed once, to fetch $axe" >&2
    exit 1
  }
  rm -rf .cache/e2e-axe
  mkdir -p .cache/e2e-axe
  pack() { npm pack --silent --pack-destination .cache/e2e-axe "$axe" >/dev/null; }
  attempt "$axe, 3 MB" pack
  tar -xzf .cache/e2e-axe/*.tgz -C .cache/e2e-axe package/axe.min.js package/LICENSE
  rm .cache/e2e-axe/*.tgz
  touch .cache/e2e-axe/"$axe"
fi

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
