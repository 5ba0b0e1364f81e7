#!/usr/bin/env bash
# Installs what `make e2e` needs: Python clients in two virtual environments into .cache/e2e, and by scripts/engine-install.sh llama.cpp's
# server and a small model. About 260 MB the first time; a second run finds the stamp and ends at once. Nothing outside .cache is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/engine-install.sh

cache=.cache/e2e
pins=(e2e/requirements.txt e2e/frameworks.txt scripts/e2e-install.sh scripts/attempt.sh)
stamp=$(cat "${pins[@]}" | sha256sum | cut -d' ' -f1)
# The stamp alone would not tell that the Python below the environment has gone.
installed() {
  [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ] && "$cache/venv/bin/python" -c '' 2>/dev/null && "$cache/frameworks/bin/python" -c '' 2>/dev/null
}
if installed; then
  echo "e2e-install: $cache is up to date"
  exit 0
fi

# Two runs at once would install into the same folder.
mkdir -p .cache
exec 9>.cache/e2e.lock
flock 9
if installed; then
  exit 0
fi

source scripts/attempt.sh
source scripts/python.sh

rm -rf "$cache"
mkdir -p "$cache"
"$python" -m venv "$cache/venv"
pip=("$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-compile --only-binary :all: --progress-bar "$bar")
attempt "Python clients" "${pip[@]}" --no-deps -r e2e/requirements.txt
if grep -qi '^litellm' e2e/requirements.txt e2e/frameworks.txt; then
  echo "e2e-install: litellm is among the pins: releases of it were compromised" >&2
  exit 1
fi
"$python" -m venv "$cache/frameworks"
attempt "LangChain and LlamaIndex, 80 MB" "$cache/frameworks/bin/python" "${pip[@]:1}" --no-deps -r e2e/frameworks.txt
echo "$stamp" >"$cache/stamp"
echo "e2e-install: ready in $cache"
