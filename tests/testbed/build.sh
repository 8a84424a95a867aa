#!/usr/bin/env bash
# Builds the programs of the test bed once per machine: a Kubernetes control plane, KWOK, and the
# babysitter that ends them; with --gang also a gang scheduler and the operators of jobs, with --kinds KubeRay
# and the definitions of more kinds of jobs, with --version an older control plane. Does nothing when they are
# there. Progress goes to stderr, the folder with the programs is the last line of stdout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cache="${XDG_CACHE_HOME:-$HOME/.cache}/portcullis-testbed"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

say() { printf 'testbed: %s\n' "$*" >&2; }

# ldflags MINOR PATCH: a program of Kubernetes 1.MINOR.PATCH knows its version, kubectl cannot do without.
ldflags() {
  local version=k8s.io/component-base/version
  echo "-s -w -X $version.gitVersion=v1.$1.$2 -X $version.gitMajor=1 -X $version.gitMinor=$1" \
    "-X $version.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=v1.$1.$2"
}
of_kube=$(ldflags 37 2)
of_1_36=$(ldflags 36 3)
of_1_35=$(ldflags 35 4)
of_coscheduler=$(ldflags 34 4)

# hash_of LDFLAGS FILE…: names what is built from them.
hash_of() { { echo "$1"; cat "${@:2}"; } | sha256sum | cut -c1-16; }
hash_of_module() { hash_of '-s -w' "$1"/go.mod "$1"/go.sum "$1"/loopback.sed; }

kube="kube-$(hash_of "$of_kube" kube/go.mod kube/go.sum kube/main.go)"
babysit="babysit-$(hash_of "$of_kube" kube/babysit/main.go)"
kwok="kwok-$(hash_of "$of_kube" kwok/go.mod kwok/go.sum)"
core="$cache/$(printf '%s\n' "$kube" "$babysit" "$kwok" | sha256sum | cut -c1-16)"

coscheduler="coscheduler-$(hash_of "$of_coscheduler" coscheduler/go.mod coscheduler/go.sum coscheduler/main.go)"
mpi_operator="mpi-operator-$(hash_of_module mpi-operator)"
training_operator="training-operator-$(hash_of_module training-operator)"
jobset="jobset-$(hash_of_module jobset)"
gang="$cache/$({
  printf '%s\n' "$core" "$coscheduler" "$mpi_operator" "$training_operator" "$jobset"
  cat build.sh -- */kustomization.yaml
} | sha256sum | cut -c1-16)"
kuberay="kuberay-$(hash_of '-s -w' kuberay/go.mod kuberay/go.sum)"
kinds="$cache/$({
  printf '%s\n' "$core" "$kuberay"
  cat build.sh kuberay/kustomization.yaml kinds/go.mod kinds/go.sum
} | sha256sum | cut -c1-16)"

# build STEP NAME MODULE PACKAGE HOW-LONG LDFLAGS [OPTION…]: one program, into the cache under its own hash.
build() {
  local step=$1 name=$2 module=$3 package=$4 usual=$5 flags=$6 started=$SECONDS
  shift 6
  if [ -x "$cache/programs/$name" ]; then
    say "[$step] ${name%-*} is there"
    return
  fi
  say "[$step] building ${name%-*} (about $usual the first time)"
  (while sleep 30; do say "[$step] … $((SECONDS - started)) s"; done) 9>&- &
  ticker=$!
  trap 'kill "$ticker" 2>/dev/null || true' EXIT
  (cd "$module" && go build "$@" -trimpath -buildvcs=false \
    -ldflags "$flags" -o "$cache/programs/.$name.new" "$package") >&2
  mv "$cache/programs/.$name.new" "$cache/programs/$name"
  kill "$ticker" 2>/dev/null || true
  trap - EXIT
  say "[$step] ${name%-*} built in $((SECONDS - started)) s"
}

# source_of MODULE UPSTREAM: the folder of a module that ours requires.
source_of() { (cd "$1" && go mod download "$2" >&2 && go list -m -f '{{.Dir}}' "$2"); }

# pinned MODULE UPSTREAM: as source_of, where nothing is built: of the graph of modules it loads nothing.
pinned() {
  local version
  version=$(awk -v path="$2" '$1 == path { print $2 }' "$1/go.mod")
  (cd "$1" && go mod download -json "$2@$version") | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}

# patched MODULE UPSTREAM FILE…: a go.mod for `go build -modfile` that takes upstream from a copy, in which
# MODULE/loopback.sed was run over these files.
patched() {
  local module=$1 upstream=$2 to="$cache/patched/$1" from file
  from=$(source_of "$module" "$upstream")
  rm -rf "$to"
  mkdir -p "$to"
  cp -r --no-preserve=mode "$from" "$to/source"
  for file in "${@:3}"; do
    sed -f "$module/loopback.sed" "$from/$file" >"$to/source/$file"
    grep -q TESTBED_ "$to/source/$file" || { say "$module/loopback.sed does not fit $file"; exit 1; }
  done
  cp "$module/go.sum" "$to/go.sum"
  { cat "$module/go.mod"; printf '\nreplace %s => %s\n' "$upstream" "$to/source"; } >"$to/go.mod"
  echo "$to/go.mod"
}

# publish FOLDER NAME…: a folder with links to programs.
publish() {
  local name
  mkdir -p "$1"
  for name in "${@:2}"; do
    ln -sfn "$cache/programs/$name" "$1/${name%-*}"
  done
}

# crds UPSTREAM-FOLDER FILE…: one stream of manifests.
crds() {
  local file
  for file in "${@:2}"; do
    echo ---
    cat "$1/$file"
  done
}

# installation MODULE UPSTREAM: what the operator's authors have people apply, changed by MODULE/kustomization.yaml.
installation() {
  local folder="$cache/patched/$1-installation"
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$1/kustomization.yaml" "$folder/"
  ln -s "$(source_of "$1" "$2")" "$folder/upstream"
  "$core/kube" kubectl kustomize "$folder" 2>/dev/null || { say "$1/kustomization.yaml does not fit"; exit 1; }
}

# older VERSION LDFLAGS: the name of an older control plane: the same main.go with the modules of kube/VERSION.mod.
older() { echo "kube-$1-$(hash_of "$2" "kube/$1.mod" "kube/$1.sum" kube/main.go)"; }

# build_older VERSION LDFLAGS
build_older() {
  local name
  name=$(older "$1" "$2")
  build "$1" "$name" kube . '7 minutes' "$2" -modfile="$1.mod"
  mkdir -p "$wanted"
  ln -sfn "$cache/programs/$name" "$wanted/kube"
  touch "$wanted/.complete"
}

build_core() {
  build 1/3 "$babysit" kube ./babysit '5 s' "$of_kube"
  build 2/3 "$kube" kube . '7 minutes' "$of_kube"
  build 3/3 "$kwok" kwok sigs.k8s.io/kwok/cmd/kwok '2 minutes' "$of_kube"
  publish "$core" "$babysit" "$kube" "$kwok"
  touch "$core/.complete"
}

build_gang() {
  local mpi=github.com/kubeflow/mpi-operator training=github.com/kubeflow/training-operator
  local jobsets=sigs.k8s.io/jobset plugins=sigs.k8s.io/scheduler-plugins from modfile
  build gang\ 1/4 "$coscheduler" coscheduler . '4 minutes' "$of_coscheduler"
  modfile=$(patched mpi-operator $mpi cmd/mpi-operator/app/server.go)
  build gang\ 2/4 "$mpi_operator" mpi-operator $mpi/cmd/mpi-operator '2 minutes' '-s -w' -modfile="$modfile"
  modfile=$(patched training-operator $training cmd/training-operator.v1/main.go pkg/cert/cert.go)
  build gang\ 3/4 "$training_operator" training-operator $training/cmd/training-operator.v1 '90 s' '-s -w' \
    -modfile="$modfile"
  modfile=$(patched jobset $jobsets pkg/util/cert/cert.go)
  build gang\ 4/4 "$jobset" jobset $jobsets '90 s' '-s -w' -modfile="$modfile"

  publish "$gang" "$coscheduler" "$mpi_operator" "$training_operator" "$jobset"
  mkdir -p "$gang/crds" "$gang/install"
  from=$(source_of coscheduler $plugins)
  crds "$from/manifests/coscheduling" crd.yaml >"$gang/crds/coscheduling.yaml"
  from=$(source_of mpi-operator $mpi)
  crds "$from/manifests/base" kubeflow.org_mpijobs.yaml >"$gang/crds/mpi-operator.yaml"
  # Not its MPIJob, which is version v1 of mpi-operator's v2beta1 under the same name.
  from=$(source_of training-operator $training)
  crds "$from/manifests/base/crds" kubeflow.org_{jax,paddle,pytorch,tf,xgboost}jobs.yaml \
    >"$gang/crds/training-operator.yaml"
  from=$(source_of jobset $jobsets)
  crds "$from/config/components/crd/bases" jobset.x-k8s.io_jobsets.yaml >"$gang/crds/jobset.yaml"
  installation mpi-operator $mpi >"$gang/install/mpi-operator.yaml"
  installation training-operator $training >"$gang/install/training-operator.yaml"
  installation jobset $jobsets >"$gang/install/jobset.yaml"
  touch "$gang/.complete"
}

build_kinds() {
  local ray=github.com/ray-project/kuberay/ray-operator from
  build kinds\ 1/2 "$kuberay" kuberay $ray '2 minutes' '-s -w'
  publish "$kinds" "$kuberay"
  say '[kinds 2/2] definitions of TrainJob, RayJob, RayCluster, RayService, AppWrapper and SparkApplication'
  mkdir -p "$kinds/crds" "$kinds/install"
  from=$(source_of kuberay $ray)
  crds "$from/config/crd/bases" ray.io_ray{clusters,jobs,services}.yaml >"$kinds/crds/kuberay.yaml"
  installation kuberay $ray >"$kinds/install/kuberay.yaml"
  from=$(pinned kinds github.com/kubeflow/trainer/v2)
  crds "$from/manifests/base/crds" trainer.kubeflow.org_trainjobs.yaml >"$kinds/crds/trainer.yaml"
  from=$(pinned kinds github.com/project-codeflare/appwrapper)
  crds "$from/config/crd/bases" workload.codeflare.dev_appwrappers.yaml >"$kinds/crds/appwrapper.yaml"
  from=$(pinned kinds github.com/kubeflow/spark-operator/v2)
  crds "$from/config/crd/bases" sparkoperator.k8s.io_sparkapplications.yaml >"$kinds/crds/spark-operator.yaml"
  touch "$kinds/.complete"
}

of_older=
case "$*" in
  '') wanted=$core ;;
  --gang) wanted=$gang ;;
  --kinds) wanted=$kinds ;;
  '--version 1.36') of_older=$of_1_36 ;;
  '--version 1.35') of_older=$of_1_35 ;;
  *) say "usage: build.sh [--gang | --kinds | --version 1.36|1.35]"; exit 2 ;;
esac
[ -z "$of_older" ] || wanted="$cache/$(older "$2" "$of_older")"
if [ ! -e "$wanted/.complete" ]; then
  command -v go >/dev/null || { say 'Go is needed (1.26 or later), see README.md'; exit 1; }
  mkdir -p "$cache/programs"
  exec 9>"$cache/build.lock"
  flock --nonblock 9 || { say 'another build runs, waiting for it'; flock 9; }
  [ -e "$core/.complete" ] || build_core
  case "$wanted" in
    "$core") ;;
    "$gang") build_gang ;;
    "$kinds") build_kinds ;;
    *) build_older "$2" "$of_older" ;;
  esac
fi
echo "$wanted"
