"""10,000 micro-batches through 4 workers, one of them slow (kind paced), with an edge from the first stage to the last: memory is
flat after warm-up, and the rate is within 3 % of the slow stage's limit. Sleeping decides here, so it may be asserted.

ctest: labels=release timeout=400 serial
"""
import json
import os
import time

import mpi
from mpi import cases
from cases import np

PACE_US, MICRO_BATCHES = 10000, 10000
DEVICES = "devices:\n  - {name: a, kind: cpu}\n  - {name: b, kind: cpu}\n  - {name: slow, kind: paced, pace_us: %d}\n" \
          "  - {name: d, kind: cpu}\n" % PACE_US


def edges_of(path):
    """(from, to) of all edges that a trace shows."""
    with open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    senders = {e["args"]["detail"]: e["args"]["stage"] for e in events if e["cat"] == "send"}
    return {(senders.get(e["args"]["detail"]), e["args"]["stage"]) for e in events if e["cat"] == "receive"}


def resident(pid):
    """KiB."""
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def command(artifact, work, inputs, repeat, *more):
    return mpi.worker(artifact, "--plan", os.path.join(work, "plan.json"), "--devices", os.path.join(work, "devices.yaml"),
                      "--input-dir", inputs, "--output-dir", os.path.join(work, "out"), "--repeat", repeat, *more)


def skip_edge(artifact, work, inputs):
    trace = os.path.join(work, "trace.json")
    done = mpi.Job([(4, command(artifact, work, inputs, 10, "--trace", trace))]).end()
    if done.returncode != 0:
        return "exit %d\n%s" % (done.returncode, done.stderr[-1500:])
    return None if (0, 3) in edges_of(trace) else "no edge from the first stage to the last: %s" % edges_of(trace)


def steady(artifact, work, inputs, want):
    report = os.path.join(work, "report.json")
    batch = len(np.load(cases.files(inputs, "input")[0]))
    job = mpi.Job([(4, command(artifact, work, inputs, MICRO_BATCHES // batch, "--report", report))], timeout=300)
    workers = [job.wait_for("cuvil-worker", "--rank %d" % rank) for rank in range(4)] + [job.wait_for("cuvil-gateway")]
    seconds = MICRO_BATCHES * PACE_US / 1e6
    time.sleep(0.2 * seconds)
    first = [resident(pid) for pid in workers]
    time.sleep(0.6 * seconds)
    last = [resident(pid) for pid in workers]
    done = job.end()
    if done.returncode != 0:
        return "exit %d\n%s" % (done.returncode, done.stderr[-1500:])
    print("resident KiB after 20 %% and 80 %%: %s, %s" % (first, last))
    if max(b - a for a, b in zip(first, last)) > 512:
        return "memory grows: %s KiB, then %s" % (first, last)
    with open(report) as f:
        told = json.load(f)
    if any(s["micro_batches"] != MICRO_BATCHES for s in told["stages"]):
        return "micro-batches: %s" % [s["micro_batches"] for s in told["stages"]]
    rate, limit = told["rate"] * batch, 1e6 / PACE_US
    print("%.1f micro-batches/s of %.1f" % (rate, limit))
    if rate < 0.97 * limit:
        return "rate %.1f/s, the slow stage allows %.1f" % (rate, limit)
    got = [open(f, "rb").read() for f in cases.files(os.path.join(work, "out"), "output")]
    return None if got == want else "the answer differs from that of one process"


if __name__ == "__main__":
    mpi.need_programs()
    report = cases.Report()
    inputs = os.path.join(cases.goldens(["bert-tiny"]), "bert-tiny")
    work = os.path.join(cases.work_dir("mpirun"), "paced")
    artifact = mpi.build("paced", os.path.join(inputs, "model.onnx"))
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "devices.yaml"), "w") as f:
        f.write(DEVICES)
    steps = len(json.loads(cases.run([cases.CUVIL, "inspect", artifact, "--json"]).stdout)["steps"])
    bounds = [0, steps // 6, steps // 3, steps // 2, steps]  # the attention mask goes from the first stage to the last
    stages = [{"device": d, "first": bounds[i], "last": bounds[i + 1] - 1} for i, d in enumerate(("a", "b", "slow", "d"))]
    with open(os.path.join(work, "plan.json"), "w") as f:
        json.dump({"stages": stages, "micro_batch": 1, "threads": 1}, f)
    cases.run([cases.CUVIL, "run", artifact, "--input-dir", inputs, "--output-dir", os.path.join(work, "whole")])
    want = [open(f, "rb").read() for f in cases.files(os.path.join(work, "whole"), "output")]
    report.attempt("skip edge", skip_edge, artifact, work, inputs)
    report.attempt("steady", steady, artifact, work, inputs, want)
    report.finish()
