"""Bits across processes: under mpirun -n 2, 3, 4, on shm and on ucx, the output of one worker, bit for bit.

Tiny and real models, with a batch of 7 where the model is separable; each run walks three seeded plans without restarting its
workers, with micro-batches of 1, 3, 4 and 1 or 2 threads. ctest: labels=release timeout=1500
"""
import os
import random

import mpi
import test_bits
from mpi import cases

COUNTS = (2, 3, 4)
TRANSPORTS = ("shm", "ucx")


def plan_sets(legal, stages, seed):
    """Three sets of cuts for so many stages, with micro-batches and threads."""
    rng = random.Random("%s %d" % (seed, stages))
    return [(rng.sample(legal, stages - 1), (1, 3, 4)[k], rng.choice((1, 2))) for k in range(3)]


def compare(name, model, inputs):
    artifact = mpi.build("bits-" + name, model)
    legal = test_bits.inspect(artifact)["legal_cuts"]
    work = os.path.join(cases.work_dir("mpirun"), "bits-" + name)
    whole = os.path.join(work, "whole")
    cases.run([cases.CUVIL, "run", artifact, "--input-dir", inputs, "--output-dir", whole])
    want = [open(f, "rb").read() for f in cases.files(whole, "output")]
    assert want, "no outputs"
    runs = 0
    for n in COUNTS:
        if len(legal) < n - 1:
            continue
        plans = mpi.write_plans(os.path.join(work, "plans_%d" % n), artifact, plan_sets(legal, n, name))
        for transport in TRANSPORTS:
            out = os.path.join(work, "%s_%d" % (transport, n))
            done = mpi.Job([(n, mpi.worker(artifact, "--plans", plans, "--input-dir", inputs, "--output-dir", out, "--transport",
                                           transport))], timeout=120).end()
            if done.returncode != 0:
                return "-n %d on %s: exit %d\n%s" % (n, transport, done.returncode, done.stderr[-1500:])
            for k in range(3):
                got = [open(f, "rb").read() for f in cases.files(os.path.join(out, "plan_%d" % k), "output")]
                if got != want:
                    return "-n %d on %s, plan %d: %s differ" % (n, transport, k,
                                                                [i for i, (g, w) in enumerate(zip(got, want)) if g != w] or "files")
            runs += 1
    print("%s: %d runs of 3 plans equal" % (name, runs), flush=True)
    return None if runs else "no runs: the program has no legal cut"


if __name__ == "__main__":
    mpi.need_programs()
    report = cases.Report()
    top = cases.goldens(cases.TINY, test_bits.BATCH)
    for model in cases.TINY:
        report.attempt(model, compare, model, os.path.join(top, model, "model.onnx"), os.path.join(top, model))
    for model in cases.REAL:
        folder = cases.shared("models/real", model)
        stacked = test_bits.stack_real(folder, os.path.join(cases.work_dir("mpirun"), model + "-inputs"))
        report.attempt(model, compare, model, os.path.join(folder, "model.onnx"), stacked)
    report.finish()
