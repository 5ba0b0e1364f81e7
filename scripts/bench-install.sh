#!/usr/bin/env bash
# Installs what `make bench` measures beside us: nginx and HAProxy from the distribution's packages. With --peers also three LLM
# routers from PyPI, pinned, each in a virtual environment of its own under .cache/peers.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
PATH=$PATH:/usr/sbin:/sbin
for program in nginx haproxy; do
  command -v "$program" >/dev/null || missing+=("$program")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || {
    echo "bench-install: ${missing[*]} not found, and there is no apt-get: install them yourself" >&2
    exit 1
  }
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
[ "${1:-}" = --peers ] || exit 0

source scripts/attempt.sh
python=${PYTHON:-python3}
for pin in sglang-router==0.3.2 smg==1.13.0 vllm-router==0.1.17; do
  name=${pin%%==*}
  venv=.cache/peers/$name
  if [ "$(cat "$venv/pin" 2>/dev/null)" = "$pin" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    continue
  fi
  rm -rf "$venv"
  "$python" -m venv "$venv"
  attempt "$pin" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$pin"
  echo "$pin" >"$venv/pin"
done
