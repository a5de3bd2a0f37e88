#!/bin/bash
# ONNX's own node cases that need the default domain and plain tensors only ("core", 1,725 of them): those listed in
# node_cases.txt must pass, and at least as many as are listed. The list only grows. ctest: labels=release timeout=1800
set -euo pipefail
cd "$(dirname "$0")/../.."
shared=${CUVIL_SHARED:-$PWD/../shared}
[[ -d $shared ]] || { echo "skipped: no ../shared" && exit 77; }
[[ -n ${CUVIL_PYTHON:-} ]] || { echo "skipped: no onnx (CUVIL_PYTHON names a Python that has it)" && exit 77; }
work=$CUVIL_BUILD/test-work/nodes
mkdir -p "$work"
export CUVIL_CACHE=$work/cache
"$CUVIL_PYTHON" "$shared/onnx/node_tests.py" --corpus "$work/corpus" --json "$work/result.json" --jobs 2 --timeout 240 --tag core \
  --expect tests/golden/node_cases.txt --min "$(wc -l <tests/golden/node_cases.txt)" --cmd "$CUVIL_BIN/cuvil run {model} --input-dir {dir} --output-dir {out}"
