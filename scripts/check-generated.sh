#!/usr/bin/env bash
# Fails when a generated document differs from what the code writes; it is written anew, so that committing it is all there is to do.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
cp -R docs "$kept/docs"
go generate ./...
go run ./scripts/drawings docs/img
if ! diff -ru "$kept/docs" docs; then
  echo "check-generated: the documents above were out of date and are written anew: commit them" >&2
  exit 1
fi
