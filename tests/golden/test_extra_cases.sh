#!/bin/bash
# The extra ONNX cases of ../shared, all of them. ctest: labels=release timeout=300
set -euo pipefail
cd "$(dirname "$0")/../.."
shared=${CUVIL_SHARED:-$PWD/../shared}
[[ -d $shared ]] || { echo "skipped: no ../shared" && exit 77; }
[[ -n ${CUVIL_PYTHON:-} ]] || { echo "skipped: no onnx (CUVIL_PYTHON names a Python that has it)" && exit 77; }
work=$CUVIL_BUILD/test-work/extra
mkdir -p "$work"
"$CUVIL_PYTHON" "$shared/onnx/node_tests.py" --corpus "$shared/onnx/extra_cases" --json "$work/result.json" --jobs 2 \
  --list-failures --cmd "$CUVIL_BIN/cuvil run {model} --input-dir {dir} --output-dir {out}"
