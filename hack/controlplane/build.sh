#!/usr/bin/env bash
# Copyright The Interlock Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the control plane that tests and the demo run on. What is already there is not built again.
#
#   build.sh DIRECTORY
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd_version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
IFS=. read -r major minor _ <<<"${version#v}"

# Without these the API server calls itself v0.0.0-master. Nothing in them differs from one build to the next.
stamp=k8s.io/component-base/version
ldflags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
ldflags+=" -X $stamp.gitCommit=unknown -X $stamp.gitTreeState=archive"

# build STEP NAME VERSION PACKAGE HOW_LONG
build() {
  local step="[$1/4]" name=$2 version=$3 package=$4 how_long=$5
  if [ -x "$out/$name" ]; then
    return
  fi
  echo "$step building $name $version, once: about $how_long on two cores"
  local start=$SECONDS heartbeat=30
  CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$out/.$name.$$" "$package" &
  compiler=$!
  while sleep 1 && kill -0 "$compiler" 2>/dev/null; do
    if ((SECONDS - start >= heartbeat)); then
      echo "$step building $name: $heartbeat s so far"
      ((heartbeat += 30))
    fi
  done
  wait "$compiler"
  # Only a finished build gets the name, so that an interrupted one does not pass for it.
  mv "$out/.$name.$$" "$out/$name"
  echo "$step built $name in $((SECONDS - start)) s"
}

# The shell runs the compiler beside itself, where an interrupt from the keyboard does not reach it.
compiler=
trap '[ -z "$compiler" ] || kill "$compiler" 2>/dev/null || true' EXIT

build 1 etcd "$etcd_version" go.etcd.io/etcd/server/v3 "1 minute"
build 2 kube-apiserver "$version" k8s.io/kubernetes/cmd/kube-apiserver "6 minutes"
build 3 kube-controller-manager "$version" k8s.io/kubernetes/cmd/kube-controller-manager "2 minutes"
build 4 kubectl "$version" k8s.io/kubernetes/cmd/kubectl "1 minute"
