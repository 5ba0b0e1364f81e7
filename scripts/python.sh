# shellcheck shell=bash
# Sourced by scripts that install with pip: sets python, which is 3.10 or later, and bar, for pip's --progress-bar.
bar=on
[ -t 1 ] || bar=off # a bar that redraws itself makes a log unreadable; pip still names each download and its size

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "$(basename "$0" .sh): $python is too old or missing: Python 3.10 or later is needed (set PYTHON to choose one)" >&2
  exit 1
}
