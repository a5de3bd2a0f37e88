"""silero-vad as a stream with state under mpirun -n 2: the stored answers, on both transports, request by request; its report.

ctest: labels=release timeout=120
"""
import json
import os

import mpi
from mpi import cases
from cases import np

DATA = os.path.join(cases.ROOT, "tests/data/silero-vad")


def stream(artifact, transport):
    out = os.path.join(cases.work_dir("mpirun"), "stream-" + transport)
    report = out + ".json"
    done = mpi.Job([(2, mpi.worker(artifact, "--stages", 2, "--each", "input=%s/chunks.npy" % DATA, "--input", "state=%s/state.npy" % DATA,
                                   "--output-dir", out, "--transport", transport, "--report", report))]).end()
    if done.returncode != 0:
        return "exit %d\n%s" % (done.returncode, done.stderr[-1500:])
    got, state = cases.load(out)
    want, last = np.load(DATA + "/expected_output.npy"), np.load(DATA + "/expected_last_state.npy")
    return (cases.differs(got, want, 1e-4, 1e-3) or cases.differs(state[-1], last, 1e-4, 1e-3) or check_report(report, len(want)))


def check_report(path, requests):
    """The form of docs/commands.md, and lanes that add up."""
    with open(path) as f:
        report = json.load(f)
    if report["requests"] != requests or len(report["stages"]) != 2 or report["rate"] <= 0:
        return "report: %s" % report
    if not 0 < report["latency_us"]["p50"] <= report["latency_us"]["p99"]:
        return "latency: %s" % report["latency_us"]
    for stage in report["stages"]:
        if stage["micro_batches"] != requests or stage["predicted_us"] <= 0 or stage["measured_us"] <= 0:
            return "stage: %s" % stage
        for name in ("compute_lane", "comm_lane"):
            lane = dict(stage[name])
            wall = lane.pop("wall")
            if abs(sum(lane.values()) - wall) > 0.02 * wall or min(lane.values()) < 0:
                return "%s of %s does not add up: %s" % (name, stage["device"], stage[name])
    return None


if __name__ == "__main__":
    mpi.need_programs()
    report = cases.Report()
    artifact = mpi.build("stream", DATA + "/model.onnx", "--bind", "sr=16000", "--state", "state=stateN")
    for transport in ("shm", "ucx"):
        report.attempt(transport, stream, artifact, transport)
    report.finish()
