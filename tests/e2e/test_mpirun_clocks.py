"""One clock in the trace: with a worker whose clock is an hour ahead (a time namespace of its own), no message is received before
it was sent, beyond the bounds that the trace states.

ctest: labels=release timeout=120
"""
import json
import os
import subprocess

import mpi
from mpi import cases
from cases import np

HOUR = ["unshare", "-T", "--monotonic", "3600"]
DATA = os.path.join(cases.ROOT, "tests/data/silero-vad")


def check_trace(path):
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    clocks = {e["pid"]: e["args"] for e in events if e["ph"] == "M"}
    offsets = sorted(c["clock_offset_ns"] for c in clocks.values())
    if len(clocks) != 3 or not 3.59e12 < offsets[-1] < 3.61e12 or any(c["dropped_events"] for c in clocks.values()):
        return "processes: %s" % clocks
    sends = {e["id"]: e for e in events if e["ph"] == "s"}
    pairs = worst = 0
    for e in events:
        if e["ph"] != "f":
            continue
        send = sends.get(e["id"])
        if send is None:
            return "message %s was received but never sent" % e["id"]
        bound = (clocks[e["pid"]]["clock_bound_ns"] + clocks[send["pid"]]["clock_bound_ns"]) / 1000
        worst = max(worst, send["ts"] - e["ts"] - bound)
        pairs += 1
    # gateway -> 0 -> 1 -> gateway, and the state that jumps a stage
    if pairs < 3 * 100:
        return "only %d messages" % pairs
    print("%d messages; bounds %s us" % (pairs, [round(c["clock_bound_ns"] / 1000, 1) for c in clocks.values()]))
    return "a message was received %.1f us before it was sent, beyond the bound" % worst if worst > 0 else None


def run(artifact, inputs, transport):
    trace = os.path.join(cases.work_dir("mpirun"), "clocks-%s.json" % transport)
    one = mpi.worker(artifact, "--stages", 2, "--input-dir", inputs, "--repeat", 100, "--output-dir", inputs + "/out", "--trace", trace,
                     "--transport", transport)
    done = mpi.Job([(1, one), (1, HOUR + one)]).end()
    if done.returncode != 0:
        return "exit %d\n%s" % (done.returncode, done.stderr[-1500:])
    return check_trace(trace) or (None if "clocks of two processes agree within" in done.stdout else "the bound is not printed")


if __name__ == "__main__":
    mpi.need_programs()
    if subprocess.run(HOUR + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        cases.skip("right to make a time namespace (unshare -T)")
    inputs = os.path.join(cases.work_dir("mpirun"), "clocks")
    os.makedirs(inputs, exist_ok=True)
    np.save(os.path.join(inputs, "input_0.npy"), np.load(DATA + "/chunks.npy")[0].reshape(1, -1))
    np.save(os.path.join(inputs, "input_1.npy"), np.load(DATA + "/state.npy"))
    report = cases.Report()
    artifact = mpi.build("clocks", DATA + "/model.onnx", "--bind", "sr=16000")
    for transport in ("shm", "ucx"):
        report.attempt(transport, run, artifact, inputs, transport)
    report.finish()
