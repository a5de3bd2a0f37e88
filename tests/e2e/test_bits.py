"""Bits within one target: however a program is cut, the output is that of one worker, bit for bit, in one process.

Tiny and real models, with a batch of 7 where the model is separable; every single legal cut, and up to 20 seeded sets of cuts
for 2, 3 and 4 stages, with micro-batches of 1, 3, 4 and 1 or 2 threads. ctest: labels=release timeout=1800
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import cases  # noqa: E402
from cases import np  # noqa: E402

BATCH = 7


def inspect(model):
    return json.loads(cases.run([cases.CUVIL, "inspect", model, "--json"]).stdout)


def cut_sets(legal, seed):
    """Lines CUTS MICRO-BATCH THREADS: every single cut, then seeded sets for 2 to 4 stages."""
    rng = random.Random(seed)
    sets = [[c] for c in legal]
    for stages in (2, 3, 4):
        if len(legal) < stages - 1:
            continue
        seen = set()
        for _ in range(200):
            if len(seen) == 20:
                break
            seen.add(tuple(sorted(rng.sample(legal, stages - 1))))
        sets += [list(s) for s in sorted(seen)]
    return ["%s %d %d" % (",".join(map(str, s)), rng.choice((1, 3, 4)), rng.choice((1, 2))) for s in sets]


def stack_real(folder, out):
    """A batch of 7 from the cases of a real model, where they can be stacked along the batch."""
    first = cases.load(os.path.join(folder, "case_0"), "input")
    os.makedirs(out, exist_ok=True)
    axes = {"silero-vad": (0, 1, None)}.get(os.path.basename(folder), (0,) * len(first))
    for i, (tensor, axis) in enumerate(zip(first, axes)):
        if axis is not None and tensor.shape[axis] == 1:
            parts = [tensor * np.asarray(1 + k % 3, tensor.dtype) if tensor.dtype.kind == "f" else tensor for k in range(BATCH)]
            tensor = np.concatenate(parts, axis)
        np.save(os.path.join(out, "input_%d.npy" % i), tensor)
    return out


def compare(name, model, inputs, limit=None):
    work = os.path.join(cases.work_dir("bits"), name)
    os.makedirs(work, exist_ok=True)
    legal = inspect(model)["legal_cuts"]
    lines = cut_sets(legal, name)
    if limit:
        lines = random.Random(name).sample(lines, min(limit, len(lines)))
    with open(os.path.join(work, "sets"), "w") as f:
        f.write("\n".join(lines) + "\n")
    whole, cut = os.path.join(work, "whole"), os.path.join(work, "cut")
    cases.run([cases.CUVIL, "run", model, "--input-dir", inputs, "--output-dir", whole])
    cases.run([cases.CUVIL, "run", model, "--input-dir", inputs, "--cut-sets", os.path.join(work, "sets"), "--output-dir", cut])
    want = [open(f, "rb").read() for f in cases.files(whole, "output")]
    assert want, "no outputs"
    for k, line in enumerate(lines):
        got = [open(f, "rb").read() for f in cases.files(os.path.join(cut, "set_%d" % k), "output")]
        if got != want:
            return "cuts %s: %s" % (line, [i for i, (g, w) in enumerate(zip(got, want)) if g != w] or "outputs are missing")
    print("%s: %d legal cuts, %d sets equal" % (name, len(legal), len(lines)), flush=True)
    return None


if __name__ == "__main__":
    report = cases.Report()
    top = cases.goldens(cases.TINY, BATCH)
    for model in cases.TINY:
        report.attempt(model, compare, model, os.path.join(top, model, "model.onnx"), os.path.join(top, model))
    for model in cases.REAL:
        folder = cases.shared("models/real", model)
        stacked = stack_real(folder, os.path.join(cases.work_dir("bits"), model + "-inputs"))
        report.attempt(model, compare, model, os.path.join(folder, "model.onnx"), stacked)
    report.finish()
