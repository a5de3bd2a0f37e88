#!/bin/bash
# The commands on the model kept here: exit codes, one sentence on stderr, JSON alone on stdout. ctest: timeout=300
set -uo pipefail
cd "$(dirname "$0")/../.."
cuvil=$CUVIL_BIN/cuvil
data=tests/data/silero-vad
work=$CUVIL_BUILD/test-work/commands
rm -rf "$work"
mkdir -p "$work"
failed=0

fail() { echo "FAILED: $*" && failed=1; }

# expect CODE PART COMMAND...: exit code, a part of the one line on stderr ("" for silence)
expect() {
  local code=$1 part=$2 lines
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null
  local got=$?
  [[ $got = "$code" ]] || fail "exit $got instead of $code: $* ($(head -c 300 "$work/err"))"
  lines=$(wc -l <"$work/err")
  if [[ -n $part ]]; then
    grep -qF -- "$part" "$work/err" || fail "'$part' is not in: $(head -c 300 "$work/err") ($*)"
    [[ $lines = 1 ]] || fail "$lines lines on stderr instead of one: $*"
  else
    [[ $lines = 0 ]] || fail "stderr is not silent: $* ($(head -c 300 "$work/err"))"
  fi
}

expect 0 "" "$cuvil" build "$data/model.onnx" --bind sr=16000 --state state=stateN -o "$work/vad.cuv"
expect 0 "" "$cuvil" inspect "$work/vad.cuv"
expect 0 "" "$cuvil" inspect "$work/vad.cuv" --json
python3 -c 'import json,sys; j = json.load(open(sys.argv[1])); assert j["steps"] and j["legal_cuts"]' "$work/out" || fail "inspect --json"
expect 0 "" "$cuvil" run "$work/vad.cuv" --each "input=$data/chunks.npy" --input "state=$data/state.npy" --output-dir "$work/answer"
[[ -f $work/answer/output_0.npy && -f $work/answer/output_1.npy ]] || fail "run wrote no outputs"
expect 0 "" "$cuvil" run "$work/vad.cuv" --each "input=$data/chunks.npy" --input "state=$data/state.npy" --output-dir "$work/cut" --cuts 3,7 --micro-batch 1 --threads 2
cmp "$work/answer/output_0.npy" "$work/cut/output_0.npy" || fail "cuts change bits"
expect 2 "was compiled for inputs where" "$cuvil" bench "$work/vad.cuv" --repeat 1
expect 0 "" "$cuvil" build "$data/model.onnx" --bind sr=16000 --dim input.0=1 --dim input.1=576 -o "$work/fixed.cuv"
expect 0 "" "$cuvil" bench "$work/fixed.cuv" --json --repeat 3
expect 0 "" "$cuvil" profile "$work/fixed.cuv" -o "$work/profile.json" --repeat 2
expect 0 "" "$cuvil" plan "$work/fixed.cuv" --stages 2 --profile "$work/profile.json" -o "$work/plan.json"
expect 0 "" "$cuvil" plan "$work/vad.cuv" --stages 2 --json
python3 -c 'import json,sys; assert len(json.load(open(sys.argv[1]))["stages"]) == 2' "$work/out" || fail "plan --json"
expect 0 "" "$cuvil" --help
expect 0 "" "$cuvil" run --help
expect 0 "" "$cuvil" --version


expect 0 "" "$cuvil" secret new "$work/worker.key"
expect 0 "" "$cuvil" secret new "$work/operator.key"
[[ $(stat -c %a "$work/worker.key") = 600 && $(wc -c <"$work/worker.key") = 65 ]] || fail "secret new: mode or size"
cmp -s "$work/worker.key" "$work/operator.key" && fail "two secrets are the same"
cp "$work/worker.key" "$work/kept.key"
expect 2 "worker.key" "$cuvil" secret new "$work/worker.key"
cmp "$work/worker.key" "$work/kept.key" || fail "secret new changes a file that is there"
expect 2 "secret new FILE" "$cuvil" secret old "$work/x.key"
expect 2 "there is no command" "$cuvil" fly
expect 2 "unknown option" "$cuvil" run x.onnx --fly
expect 2 "missing.onnx" "$cuvil" run "$work/missing.onnx"
expect 2 "missing.cuv" "$cuvil" inspect "$work/missing.cuv"
expect 2 "--cuts" "$cuvil" run "$work/vad.cuv" --input "input=$data/chunks.npy" "state=$data/state.npy" --cuts 999
expect 2 "input" "$cuvil" run "$work/vad.cuv" --input "state=$data/state.npy"
expect 2 "input" "$cuvil" run "$work/vad.cuv" --input "input=$data/sr.npy" "state=$data/state.npy"
expect 3 "stages asked" "$cuvil" plan "$work/vad.cuv" --stages 1000
expect 2 "--bind" "$cuvil" build "$data/model.onnx" --bind sr -o "$work/x.cuv"
expect 2 "nothing" "$cuvil" build "$data/model.onnx" --bind nothing=1 -o "$work/x.cuv"
expect 2 "nowhere" "$cuvil" build "$data/model.onnx" --target nowhere -o "$work/x.cuv"
head -c 1000 "$work/vad.cuv" >"$work/short.cuv"
expect 2 "short.cuv" "$cuvil" run "$work/short.cuv" --input "state=$data/state.npy"
head -c 5000 "$data/model.onnx" >"$work/short.onnx"
expect 2 "short.onnx" "$cuvil" run "$work/short.onnx" --input "state=$data/state.npy"
exit $failed
