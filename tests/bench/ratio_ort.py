#!/usr/bin/env python3
"""Times cuvil against onnxruntime, one thread each, interleaved in one run; prints a table of ratios (never a verdict).

usage: ratio_ort.py [--rounds R] [--only NAME,...] [--core C] [--json FILE]
Models: the full-size ones of ../shared/models/make_models.py (batch 1; sequence 1 with past 127 for decoders, 128 for bert) and
models/real (their case_0; silero-vad with --bind sr=16000). CUVIL_BIN names the folder of cuvil, CUVIL_PYTHON a Python with
onnx, numpy and onnxruntime. Quote the ratio, not the times: the machine may be shared.
"""
import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import cases  # noqa: E402
from cases import np  # noqa: E402

SIZES = {"bert-base": {"batch": 1}, "whisper-small-decoder": {"batch": 1, "seq": 1, "past": 127},
         "llama-160m": {"batch": 1, "seq": 1, "past": 127}, "llama-gqa": {"batch": 1, "seq": 1, "past": 127}}


def prepare(name, work):
    """-> (model path, [input files in order], extra flags)"""
    if name in cases.REAL:
        folder = cases.shared("models/real", name)
        return os.path.join(folder, "model.onnx"), cases.files(os.path.join(folder, "case_0"), "input"), []
    sys.path.insert(0, cases.shared("models"))
    import make_models
    import onnx
    path = os.path.join(work, name + ".onnx")
    model, _ = make_models.build(name)
    if not os.path.exists(path):
        onnx.save(model, path)
    feed = make_models.inputs_for(model, name, SIZES.get(name, {"batch": 1}))
    inputs = []
    for i, (key, value) in enumerate(feed.items()):
        inputs.append(os.path.join(work, "%s-%d.npy" % (name, i)))
        np.save(inputs[-1], value)
    return path, inputs, []


ORT = """
import sys, time, json, numpy as np, onnxruntime as ort
so = ort.SessionOptions(); so.intra_op_num_threads = 1; so.inter_op_num_threads = 1; so.log_severity_level = 3
s = ort.InferenceSession(sys.argv[1], so, providers=["CPUExecutionProvider"])
feed = {i.name: np.load(f) for i, f in zip(s.get_inputs(), sys.argv[3:])}
s.run(None, feed); t = []
for _ in range(int(sys.argv[2])):
    b = time.process_time(); s.run(None, feed); t.append((time.process_time() - b) * 1e3)
print(json.dumps(sorted(t)[len(t) // 2]))
"""


def env():
    clean = dict(os.environ)
    for key in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        clean.pop(key, None)
    return clean


def pinned(core, command):
    done = subprocess.run(["taskset", "-c", str(core)] + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env())
    if done.returncode:
        raise RuntimeError("%s: %s" % (command[0], done.stderr.strip()[-300:]))
    return done.stdout


def measure(name, args, work):
    model, inputs, _ = prepare(name, work)
    artifact = os.path.join(work, name + ".cuv")
    extra = ["--bind", "sr=16000"] if name == "silero-vad" else []
    cases.run([cases.CUVIL, "build", model, "-o", artifact] + extra, timeout=1200)
    ours_inputs = inputs[:2] if name == "silero-vad" else inputs
    ours, theirs = [], []
    probe = time.time()
    pinned(args.core, [sys.executable, "-c", ORT, model, "1"] + inputs)
    repeat = max(3, min(200, int(3.0 / max(0.01, (time.time() - probe) / 4))))
    for _ in range(args.rounds):
        out = json.loads(pinned(args.core, [cases.CUVIL, "bench", artifact, "--json", "--repeat", str(repeat), "--input"] + ours_inputs))
        ours.append(out["cpu_ms"])
        theirs.append(json.loads(pinned(args.core, [sys.executable, "-c", ORT, model, str(repeat)] + inputs)))
    return min(ours), min(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    work, results = cases.work_dir("bench"), {}
    print("%-24s %10s %10s %8s" % ("model", "cuvil ms", "ort ms", "ort/cuvil"))
    for name in args.only.split(",") if args.only else cases.FULL + cases.REAL:
        try:
            ours, theirs = measure(name, args, work)
            results[name] = {"cuvil_ms": ours, "ort_ms": theirs, "ratio": theirs / ours}
            print("%-24s %10.3f %10.3f %8.2f" % (name, ours, theirs, theirs / ours), flush=True)
        except (RuntimeError, AssertionError) as e:
            print("%-24s failed: %s" % (name, e), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


main()
