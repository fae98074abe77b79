#!/usr/bin/env bash
# Copyright The Interlock Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes toolservers/catalog/data/technologies.json from the pinned npm package web-features.
#
#   generate.sh           writes the file
#   generate.sh --check   writes nothing, and fails if the file is not what would be written
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=../../toolservers/catalog/data/technologies.json

case "${1:-}" in
  "" | --check) ;;
  *) echo "usage: generate.sh [--check]" >&2; exit 2 ;;
esac

npm ci --silent
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
node build.mjs > "$fresh"

if [ "${1:-}" = --check ]; then
  cmp -s "$fresh" "$target" || { echo "${target#../../} is stale: run hack/catalog-data/generate.sh" >&2; exit 1; }
else
  # Not mv: mktemp's file is readable by its owner only.
  cat "$fresh" > "$target"
fi
