#!/usr/bin/env bash
# Volcano's module has no custom resource definitions, only the types: makes crds.yaml from them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

types=volcano.sh/apis/pkg/apis/scheduling/v1beta1
{
  echo "# Made by generate.sh from $types $(GOWORK=off go list -m -f '{{.Version}}' volcano.sh/apis)."
  GOWORK=off go tool controller-gen crd:maxDescLen=0 "paths=$types" output:crd:stdout
} >crds.yaml.new
mv crds.yaml.new crds.yaml
