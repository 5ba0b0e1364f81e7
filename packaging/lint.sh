#!/usr/bin/env bash
# Checks what is in packaging/: the rules of the files (Go tests), the scripts, the binary in the image's file system (an empty root, a
# user that is nobody, nothing writable but /state and /tmp), and the unit file. What a machine lacks the tools for is named.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "lint-packaging: $*" >&2
  exit 1
}
without() { echo "lint-packaging: not checked, because $*"; }

for script in packaging/*.sh; do bash -n "$script"; done
if command -v shellcheck >/dev/null; then shellcheck packaging/*.sh; else without "shellcheck is not installed: the scripts beyond their syntax"; fi
go test -count=1 -run 'Image|Compose|Unit' ./packaging

# The image without docker: the same files, owners and modes, the same user.
root=$work/root uid=65532
mkdir -p "$root/state" "$root/tmp"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$root/warmpath" ./cmd/warmpath
if [ "$(id -u)" = 0 ]; then
  chown "$uid:$uid" "$root/state" "$root/tmp"
  inside=(chroot "--userspec=$uid:$uid" "$root")
elif unshare --user --map-user="$uid" --map-group="$uid" --root="$root" /warmpath version >/dev/null 2>&1; then
  inside=(unshare --user --map-user="$uid" --map-group="$uid" --root="$root")
else
  fail "the empty root needs root, or user namespaces: run it with sudo"
fi
chmod 0755 "$work"
chmod 0555 "$root"
(cd "$root" && find . -path ./state -prune -o -path ./tmp -prune -o -print | sort) >"$work/before"
"${inside[@]}" /warmpath version >/dev/null
"${inside[@]}" /usr/bin/env true 2>/dev/null && fail "the empty root is not empty"

env -i "PATH=$PATH" XDG_STATE_HOME=/state "${inside[@]}" /warmpath serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --worker http://127.0.0.1:1 \
  >"$work/stdout" 2>"$work/stderr" &
router=$!
trap 'kill "$router" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 100); do
  grep -q '^serving on' "$work/stdout" && break
  kill -0 "$router" 2>/dev/null || fail "serve ended: $(cat "$work/stderr")"
  sleep 0.1
done
url=$(sed -n 's,^serving on \(http://[^/]*\)/.*,\1,p' "$work/stdout")
"${inside[@]}" /warmpath healthcheck --url "$url/healthz" || fail "healthcheck says that a running router is not well"
"${inside[@]}" /warmpath healthcheck --url "$url/readyz" 2>/dev/null && fail "healthcheck says that a router without a living worker is ready"
[ -s "$root/state/warmpath/secret" ] || fail "the secret is not in /state/warmpath: $(cat "$work/stderr")"
kill -TERM "$router"
wait "$router" || fail "serve ended with $? on SIGTERM"
"${inside[@]}" /warmpath healthcheck --url "$url/healthz" 2>/dev/null && fail "healthcheck says that a stopped router is well"
(cd "$root" && find . -path ./state -prune -o -path ./tmp -prune -o -print | sort) | diff "$work/before" - || fail "something was written outside of /state and /tmp"
echo "lint-packaging: the binary runs in an empty root as user $uid, and its health check works there"

if command -v systemd-analyze >/dev/null; then
  # The unit with this checkout's binary, so that its commands are found; its own path is the installed one.
  sed "s,/usr/local/bin/warmpath,$root/warmpath,; s,^Documentation=.*,," packaging/warmpath.service >"$work/warmpath.service"
  chmod 0755 "$root"
  cp packaging/warmpath.socket "$work/"
  systemd-analyze verify --man=no "$work/warmpath.service" "$work/warmpath.socket" || fail "systemd-analyze finds fault with warmpath.service"
  systemd-analyze security --offline=true --no-pager --threshold=20 "$work/warmpath.service" >"$work/security" || fail "warmpath.service is exposed: $(tail -1 "$work/security")"
  tail -1 "$work/security"
else
  without "systemd-analyze is not installed: warmpath.service"
fi
if docker compose version >/dev/null 2>&1; then
  docker compose -f packaging/compose.yaml config --quiet
else
  without "docker has no compose plugin here: compose.yaml beyond the rules of its test"
fi
if docker info >/dev/null 2>&1; then
  docker build --quiet -f packaging/Dockerfile -t warmpath-lint . >/dev/null
  docker run --rm --read-only --tmpfs /tmp warmpath-lint version
else
  without "no docker daemon runs here: building the image"
fi
