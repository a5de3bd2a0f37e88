"""Every case of models/real within its stated tolerance, and silero-vad's stream with state. ctest: labels=release timeout=900"""
import os
import re

import cases
from cases import np


def tolerance(folder):
    with open(os.path.join(folder, "io.txt")) as f:
        found = re.search(r"tolerance \|a-b\| <= ([0-9.e-]+) \+ ([0-9.e-]+)\*\|b\|", f.read())
    return float(found.group(1)), float(found.group(2))


def compare_case(folder, case, out):
    cases.run([cases.CUVIL, "run", os.path.join(folder, "model.onnx"), "--no-cache", "--input-dir", os.path.join(folder, case), "--output-dir", out])
    atol, rtol = tolerance(folder)
    got, want = cases.load(out), cases.load(os.path.join(folder, case))
    if len(got) != len(want):
        return "%d outputs instead of %d" % (len(got), len(want))
    for i, (g, w) in enumerate(zip(got, want)):
        problem = cases.differs(g, w, atol, rtol)
        if problem:
            return "output %d: %s" % (i, problem)
    return None


def write_stream(folder, out):
    """The stream's files: chunks, zero state, rate; and what is wanted at every step."""
    stream = np.load(os.path.join(folder, "stream.npz"))
    np.save(os.path.join(out, "chunks.npy"), stream["chunks"])
    np.save(os.path.join(out, "state.npy"), np.zeros((2, 1, 128), np.float32))
    np.save(os.path.join(out, "sr.npy"), stream["sr"])
    return stream["probs"], stream["last_state"]


def judge_stream(folder, out, probs, last_state):
    atol, rtol = tolerance(folder)
    got = cases.load(out)
    problem = cases.differs(got[0].reshape(-1), probs, atol, rtol)
    return problem or cases.differs(got[1].reshape(-1, 2, 1, 128)[-1], last_state, atol, rtol)


def compare_stream(folder, work, extra):
    probs, last_state = write_stream(folder, work)
    out = os.path.join(work, "out")
    command = [cases.CUVIL, "run", os.path.join(folder, "model.onnx"), "--state", "state=stateN", "--each",
               "input=" + os.path.join(work, "chunks.npy"), "--input", "state=" + os.path.join(work, "state.npy")]
    cases.run(command + extra(work) + ["--output-dir", out])
    return judge_stream(folder, out, probs, last_state)


if __name__ == "__main__":
    report = cases.Report()
    for model in cases.REAL:
        path = cases.shared("models/real", model)
        for name in sorted(d for d in os.listdir(path) if d.startswith("case_")):
            report.attempt(model + "/" + name, compare_case, path, name, os.path.join(cases.work_dir("real"), model + "-" + name))
    silero = cases.shared("models/real/silero-vad")
    for label, more in (("rate as an input", lambda w: ["sr=" + os.path.join(w, "sr.npy")]), ("rate bound", lambda w: ["--bind", "sr=16000"])):
        report.attempt("silero-vad stream, " + label, compare_stream, silero, cases.work_dir("stream"), more)
    report.finish()
