#!/usr/bin/env bash
# Builds the programs of the test bed once per machine: a Kubernetes control plane, KWOK, and the
# babysitter that ends them. Does nothing when they are there. Progress goes to stderr, the folder
# with the programs is the last line of stdout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

kubernetes=1.37.2
cache="${XDG_CACHE_HOME:-$HOME/.cache}/portcullis-testbed"
version=k8s.io/component-base/version
ldflags="-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=37"
ldflags+=" -X $version.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=v$kubernetes"

say() { printf 'testbed: %s\n' "$*" >&2; }
hash_of() { { echo "$ldflags"; cat "$@"; } | sha256sum | cut -c1-16; }

kube="kube-$(hash_of kube/go.mod kube/go.sum kube/main.go)"
babysit="babysit-$(hash_of kube/babysit/main.go)"
kwok="kwok-$(hash_of kwok/go.mod kwok/go.sum)"
bin="$cache/$(printf '%s\n' "$kube" "$babysit" "$kwok" | sha256sum | cut -c1-16)"

# build STEP NAME MODULE PACKAGE HOW-LONG: one program, into the cache under its own hash.
build() {
  local step=$1 name=$2 module=$3 package=$4 usual=$5 ticker started=$SECONDS
  if [ -x "$cache/programs/$name" ]; then
    say "[$step/3] ${name%-*} is there"
    return
  fi
  say "[$step/3] building ${name%-*} (about $usual the first time)"
  (while sleep 30; do say "[$step/3] … $((SECONDS - started)) s"; done) &
  ticker=$!
  trap 'kill "$ticker" 2>/dev/null || true' EXIT
  (cd "$module" && GOWORK=off GOFLAGS='' CGO_ENABLED=0 go build -mod=readonly -trimpath -buildvcs=false \
    -ldflags "$ldflags" -o "$cache/programs/.$name.new" "$package") >&2
  mv "$cache/programs/.$name.new" "$cache/programs/$name"
  kill "$ticker" 2>/dev/null || true
  trap - EXIT
  say "[$step/3] ${name%-*} built in $((SECONDS - started)) s"
}

if [ ! -e "$bin/.complete" ]; then
  command -v go >/dev/null || { say 'Go is needed (1.26 or later), see README.md'; exit 1; }
  mkdir -p "$cache/programs"
  exec 9>"$cache/build.lock"
  flock --nonblock 9 || { say 'another build runs, waiting for it'; flock 9; }
  build 1 "$babysit" kube ./babysit '5 s'
  build 2 "$kube" kube . '7 minutes'
  build 3 "$kwok" kwok sigs.k8s.io/kwok/cmd/kwok '2 minutes'
  mkdir -p "$bin"
  ln -sfn "$cache/programs/$babysit" "$bin/babysit"
  ln -sfn "$cache/programs/$kube" "$bin/kube"
  ln -sfn "$cache/programs/$kwok" "$bin/kwok"
  touch "$bin/.complete"
fi
echo "$bin"
