#!/usr/bin/env bash
# Known faults in what is linked in and really called: vuln.sh [database]. The database is a URL, or file:// and a folder; without one
# it is vuln.go.dev, and where that cannot be reached the copy that the module proxy has: the repository golang.org/x/vulndb, a module
# itself, whose data/osv govulncheck reads as it is. That copy is up to some weeks old, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."

# A fault that every database of Go's knows: one that does not would find us clean, whatever we link.
known=GO-2021-0113 of=golang.org/x/text@v0.3.5
knows() { timeout 60 go tool govulncheck -db "$1" -mode query -json "$of" 2>/dev/null | grep -q "\"$known\""; }

database=${1:-}
if [ -z "$database" ]; then
  database=https://vuln.go.dev
  if ! knows "$database"; then
    copy=$(cd / && GOFLAGS=-mod=mod go mod download -json golang.org/x/vulndb@latest) || {
      echo "vuln: neither vuln.go.dev nor the module proxy can be reached: set VULNDB to a copy of the database (https:// or file://)" >&2
      exit 1
    }
    folder=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$copy")
    version=$(sed -n 's/^\t"Version": "\(.*\)",$/\1/p' <<<"$copy")
    database=file://$folder/data/osv
    echo "vuln: vuln.go.dev cannot be reached; golang.org/x/vulndb $version is used, $(ls "$folder/data/osv" | wc -l) reports"
  fi
fi
knows "$database" || {
  echo "vuln: $database cannot be read, or does not know $known in $of: nothing that it finds clean is" >&2
  exit 1
}
go tool govulncheck -db "$database" ./...
