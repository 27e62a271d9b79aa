#!/usr/bin/env bash
# generate.sh OUT writes everything that is generated from the sources below the folder OUT, laid out as in the repository.
# OUT=. refreshes the checkout; `make verify` generates elsewhere and compares.
set -euo pipefail
out=$1
here=config/tools
controller_gen=$("$here/tool.sh" controller-gen)
crd_ref_docs=$("$here/tool.sh" crd-ref-docs)
mkdir -p "$out"/{apis/v1alpha1,config/crd,config/rbac,docs/reference}

"$controller_gen" object paths=./apis/v1alpha1 output:object:dir="$out/apis/v1alpha1"
"$controller_gen" crd paths=./apis/v1alpha1 output:crd:dir="$out/config/crd"
# roleName is what config/rbac's ServiceAccount is bound to.
"$controller_gen" rbac:roleName=proxyard-manager paths=./controllers/... output:rbac:dir="$out/config/rbac"
"$crd_ref_docs" --log-level=ERROR --source-path=apis/v1alpha1 --config="$here/crd-ref-docs.yaml" --renderer=markdown \
  --output-path="$out/docs/reference/api.md"
