#!/usr/bin/env python3
"""Efficiency of a 2-stage pipeline, one core a stage, beside the same of onnxruntime in two processes, in one run.

usage: pipeline.py [--rounds R] [--items N] [--only NAME,...] [--out FILE.json]
Per model (resnet50, bert-base; batch 1, every symbolic dim 1 as pipe_ort.py has it): `cuvil profile` on both cores at once, and the
plan made of the mean of both. A round is a worker alone on one core (N/2 requests), the pipeline (mpirun, a rank a core, N requests),
and a worker alone on the other core; the stages change cores from round to round, since the cores of a shared machine are seldom as fast.
  efficiency = rate of 2 stages / (2 x rate of one core)       wall: N / the longest compute lane; CPU: N / the most CPU time of a rank
  balance = mean / largest of the stages' median compute times over all rounds, that is, of the cut; in brackets the median of the
  rounds' own ratios, which what the machine did to one core meanwhile lowers
A rank's CPU time is that of all its processes (rank 0: gateway and coordinator too); the time to start is taken off by a run of
one request. After each three rounds ../shared/bench/pipe_ort.py measures onnxruntime with three rounds of as many items.
Prints a table, never a verdict. CUVIL_BIN names the folder of cuvil, CUVIL_PYTHON a Python with onnx, numpy and onnxruntime.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import cases  # noqa: E402
from cases import np  # noqa: E402


def cpu_seconds(path):
    """Of `times` of a shell: the second line is what its children took."""
    def seconds(text):
        minutes, rest = text.rstrip("s").split("m")
        return 60 * float(minutes) + float(rest)
    return sum(seconds(t) for t in open(path).read().split("\n")[1].split())


def worker(work, cores, n, plan, artifact, inputs):
    """(longest compute lane in s, busiest rank's CPU in s, [computing of each stage in s]) of n requests."""
    report = os.path.join(work, "report.json")
    command = [cases.MPIRUN]
    for rank, core in enumerate(cores):
        command += [":"] * (rank > 0) + ["-n", "1", "bash", "-c", '"$@" && times >%s/times%d' % (work, rank), "_", "taskset", "-c",
                                         str(core), cases.WORKER, artifact, "--repeat", str(n), "--output-dir",
                                         os.path.join(work, "out"), "--plan", plan, "--report", report, "--input"] + inputs
    cases.run(command, timeout=600)
    lanes = [s["compute_lane"] for s in json.load(open(report))["stages"]]
    return (max(lane["wall"] for lane in lanes) / 1e6, max(cpu_seconds("%s/times%d" % (work, r)) for r in range(len(cores))),
            [lane["compute"] / 1e6 for lane in lanes])


def make_model(name, work):
    """-> (artifact, inputs): as pipe_ort.py feeds it."""
    sys.path.insert(0, cases.shared("models"))
    import make_models
    import onnx
    model, _ = make_models.build(name)
    path, dims, inputs = os.path.join(work, name + ".onnx"), {}, []
    onnx.save(model, path)
    fed = {i.name for i in model.graph.initializer}
    random = np.random.default_rng(7)
    for i in model.graph.input:
        if i.name in fed:
            continue
        of = i.type.tensor_type
        shape = [d.dim_value or 1 for d in of.shape.dim]
        dims.update({d.dim_param: 1 for d in of.shape.dim if d.dim_param})
        if of.elem_type == onnx.TensorProto.FLOAT:
            value = random.standard_normal(shape).astype(np.float32)
        elif "mask" in i.name or i.name == "token_type_ids":
            value = np.full(shape, "mask" in i.name, np.int64)
        else:
            value = random.integers(0, 1000, shape)
        inputs.append(os.path.join(work, i.name + ".npy"))
        np.save(inputs[-1], value)
    artifact = os.path.join(work, name + ".cuv")
    fixed = [word for dim in dims for word in ("--dim", "%s=1" % dim)]
    cases.run([cases.CUVIL, "build", path, "-o", artifact] + fixed, timeout=600)
    return path, artifact, inputs


def profile_cores(work, artifact):
    """Profiles both cores at a time, as the pipeline uses them. -> a profile whose steps take the mean of both."""
    files = [os.path.join(work, "profile%d.json" % core) for core in (0, 1)]
    running = [subprocess.Popen(["taskset", "-c", str(core), cases.CUVIL, "profile", artifact, "-o", files[core], "--repeat", "40"],
                                stdout=subprocess.DEVNULL) for core in (0, 1)]
    if any([p.wait(timeout=600) for p in running]):
        raise RuntimeError("cuvil profile failed")
    both = [json.load(open(f)) for f in files]
    both[0]["step_us"] = [[statistics.mean(t) for t in zip(*sizes)] for sizes in zip(both[0]["step_us"], both[1]["step_us"])]
    path = os.path.join(work, "profile.json")
    with open(path, "w") as f:
        json.dump(both[0], f)
    return path


def make_plan(work, artifact, stages, profile):
    plan = os.path.join(work, "plan%d.json" % stages)
    cases.run([cases.CUVIL, "plan", artifact, "--stages", str(stages), "--profile", profile, "-o", plan])
    return plan


def measure(name, args):
    work = cases.work_dir("pipeline/" + name)
    path, artifact, inputs = make_model(name, work)
    profile = profile_cores(work, artifact)
    one, two = (make_plan(work, artifact, n, profile) for n in (1, 2))
    start_one, start_two = worker(work, [0], 1, one, artifact, inputs)[1], worker(work, [0, 1], 1, two, artifact, inputs)[1]
    rounds, stages, theirs = [], [], []
    for r in range(args.rounds):
        # the pipeline between its two cores alone: what the machine does meanwhile hits all three
        cores = [r % 2, 1 - r % 2]
        first = worker(work, cores[:1], args.items // 2, one, artifact, inputs)
        pipe = worker(work, cores, args.items, two, artifact, inputs)
        second = worker(work, cores[1:], args.items // 2, one, artifact, inputs)
        n = args.items // 2
        alone = (first[0] + second[0]) / (2 * n)
        alone_cpu, pipe_cpu = (first[1] + second[1] - 2 * start_one) / (2 * n - 2), (pipe[1] - start_two) / (args.items - 1)
        rounds.append({"wall": alone * args.items / (2 * pipe[0]), "cpu": alone_cpu / (2 * pipe_cpu), "alone_ms": 1e3 * alone,
                       "pipe_ms": 1e3 * pipe[0] / args.items, "balance": statistics.mean(pipe[2]) / max(pipe[2]),
                       "computing": max(pipe[2]) / pipe[0]})
        stages.append(pipe[2])
        if r % 3 == 2 or r == args.rounds - 1:
            theirs.append(subprocess.run([sys.executable, cases.shared("bench/pipe_ort.py"), "--rounds", "3", "--items", str(args.items),
                                          "--tmp", work, path], stdout=subprocess.PIPE, text=True, check=True).stdout)
    compute = [1e3 * statistics.median(times) / args.items for times in zip(*stages)]
    return {"rounds": rounds, "stages_ms": compute, "balance": statistics.mean(compute) / max(compute), "median": {k: statistics.median(r[k] for r in rounds) for k in rounds[0]},
            "best": {k: max(r[k] for r in rounds) for k in ("wall", "cpu", "balance")}, "pipe_ort": "".join(theirs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--only", default="resnet50,bert-base")
    parser.add_argument("--out")
    args = parser.parse_args()
    results = {}
    for name in args.only.split(","):
        results[name] = measure(name, args)
        m, b = results[name]["median"], results[name]["best"]
        print("%s: one core %.2f ms, pipeline %.2f ms an item; efficiency wall %.3f (best %.3f), CPU %.3f (best %.3f); stages %s ms, balance "
              "%.3f (%.3f); slowest stage computes %.3f of the time"
              % (name, m["alone_ms"], m["pipe_ms"], m["wall"], b["wall"], m["cpu"], b["cpu"],
                 "/".join("%.1f" % t for t in results[name]["stages_ms"]), results[name]["balance"], m["balance"], m["computing"]), flush=True)
        print(results[name]["pipe_ort"].rstrip(), flush=True)
    if args.out:
        with open(args.out, "w") as f:
            json.dump(results, f, indent=1)


main()
