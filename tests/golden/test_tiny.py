"""Every tiny model of make_models.py against its golden. ctest: labels=release timeout=900"""
import os

import cases


def compare(name, folder):
    out = os.path.join(cases.work_dir("tiny"), name)
    model = os.path.join(folder, "model.onnx")
    cases.run([cases.CUVIL, "run", model, "--input-dir", folder, "--output-dir", out, "--format", "npy"])
    return judge(name, cases.load(out), cases.load(folder))


def judge(name, got, want):
    """None, or in what the outputs of a model differ from its golden."""
    if len(got) != len(want):
        return "%d outputs instead of %d" % (len(got), len(want))
    for i, (g, w) in enumerate(zip(got, want)):
        if "nms" in name and i == 1:  # `selected`: against NMS of our own boxes
            w = cases.nms(got[0], 20, *((0.5, 0.69) if name.endswith("tiny") else (0.3, 0.55)))
        problem = cases.differs(g, w, cases.golden_atol, 1e-3)
        if problem:
            return "output %d: %s" % (i, problem)
    return None


if __name__ == "__main__":
    report = cases.Report()
    top = cases.goldens(cases.TINY)
    for model in cases.TINY:
        report.attempt(model, compare, model, os.path.join(top, model))
    report.finish()
