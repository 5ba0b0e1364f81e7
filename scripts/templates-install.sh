#!/usr/bin/env bash
# Installs what `make templates` needs into .cache/templates: Python's Jinja2, and some 70 chat templates of models out of llama.cpp's tree,
# which an npm package carries as a git bundle; all pinned. 150 MB; a second run finds the stamp and ends at once.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=.cache/templates
carrier=node-llama-cpp@3.21.1
stamp=$(cat scripts/templates/requirements.txt scripts/templates-install.sh scripts/attempt.sh | sha256sum | cut -d' ' -f1)
mkdir -p "$cache"
[ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
for program in python3 npm git tar; do
  command -v "$program" >/dev/null || {
    echo "templates-install: $program not found" >&2
    exit 1
  }
done
exec 9>"$cache/lock"
flock 9
python3 -m venv "$cache/venv"
source scripts/attempt.sh
pack() (cd "$cache" && npm pack --silent "$carrier" >/dev/null)
attempt Jinja2 "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/templates/requirements.txt
attempt templates pack
tar -xzf "$cache/${carrier/@/-}.tgz" -C "$cache" package/llama/gitRelease.bundle
rm -rf "$cache/llama.cpp"
git clone --quiet -c advice.detachedHead=false "$cache/package/llama/gitRelease.bundle" "$cache/llama.cpp"
echo "$stamp" >"$cache/stamp"
