"""Jobs that fail: each ends in time with the stated exit code and a sentence, leaves no process and nothing in /dev/shm.

ctest: labels=release timeout=300
"""
import os
import shutil
import signal
import time

import mpi
from mpi import cases
from cases import np

LONG = 16777216  # requests: the most there can be, until something ends the job


def prepare():
    """An artifact and an input; its model is kept in the repository."""
    data = os.path.join(cases.ROOT, "tests/data/silero-vad")
    artifact = mpi.build("failures", os.path.join(data, "model.onnx"), "--bind", "sr=16000")
    work = os.path.join(cases.work_dir("mpirun"), "failures")
    os.makedirs(work, exist_ok=True)
    np.save(os.path.join(work, "input_0.npy"), np.load(os.path.join(data, "chunks.npy"))[0].reshape(1, -1))
    np.save(os.path.join(work, "input_1.npy"), np.load(os.path.join(data, "state.npy")))
    return artifact, work


def judge(job, before, expect, limit, *sentences):
    begin = time.monotonic()
    job.processes()
    done = job.end()
    took = time.monotonic() - begin
    said = done.stdout + done.stderr
    if done.returncode != expect:
        return "exit %d, expected %d\n%s" % (done.returncode, expect, said[-1500:])
    if took > limit:
        return "ended after %.1f s, allowed %d" % (took, limit)
    for sentence in sentences:
        if sentence not in said:
            return "%r is not in\n%s" % (sentence, said[-1500:])
    left = job.leftovers()
    if left:
        return "processes are left: %s" % sorted(left)
    if mpi.shared_memory() - before:
        return "left in /dev/shm: %s" % sorted(mpi.shared_memory() - before)
    return None


def at_start(good, bad, inputs, *sentences):
    """Rank 1 gets another file than rank 0."""
    before = mpi.shared_memory()
    job = mpi.Job([(1, mpi.worker(good, "--input-dir", inputs, "--repeat", LONG)),
                   (1, mpi.worker(bad, "--input-dir", inputs, "--repeat", LONG))])
    return judge(job, before, 2, 20, "rank 1 on " + os.uname().nodename, *sentences)


def usage(expect, n, *words):
    def check(artifact, inputs, sentence):
        before = mpi.shared_memory()
        return judge(mpi.Job([(n, mpi.worker(artifact, *(words or ("--input-dir", inputs))))]), before, expect, 20, sentence)
    return check


def killed(artifact, inputs, number, parts, expect, limit, *sentences):
    """A process of a job that runs is ended by a signal."""
    before = mpi.shared_memory()
    job = mpi.Job([(3, mpi.worker(artifact, "--stages", 3, "--input-dir", inputs, "--repeat", LONG))])
    victim = job.wait_for(*parts)
    for rank in range(3):
        job.wait_for("cuvil-worker", "--rank %d" % rank)
    time.sleep(1)  # requests flow
    job.processes()
    os.kill(victim, number)
    return judge(job, before, expect, limit, *[s % victim if "%d" in s else s for s in sentences])


def launcher(artifact, inputs, number):
    """mpirun itself is ended: nobody stays behind."""
    before = mpi.shared_memory()
    job = mpi.Job([(2, mpi.worker(artifact, "--input-dir", inputs, "--repeat", LONG))])
    job.wait_for("cuvil-worker", "--rank 1")
    time.sleep(0.5)
    job.processes()
    os.kill(job.process.pid, number)
    job.end()
    left = job.leftovers()
    if left:
        return "processes are left: %s" % sorted(left)
    return "left in /dev/shm" if mpi.shared_memory() - before else None


def main():
    mpi.need_programs()
    report = cases.Report()
    artifact, inputs = prepare()
    host = os.uname().nodename
    damaged, cut, other = (os.path.join(inputs, n) for n in ("damaged.cuv", "cut.cuv", "other.cuv"))
    size = os.path.getsize(artifact)
    shutil.copy(artifact, damaged)
    with open(damaged, "r+b") as f:
        f.seek(size - 4096)
        f.write(b"\xa5" * 64)
    with open(artifact, "rb") as f, open(cut, "wb") as out:
        out.write(f.read(size // 2))
    data = os.path.join(cases.ROOT, "tests/data/silero-vad/model.onnx")
    cases.run([cases.CUVIL, "build", data, "--bind", "sr=8000", "-o", other])
    missing = os.path.join(inputs, "missing.cuv")
    report.attempt("missing file", at_start, artifact, missing, inputs, missing)
    report.attempt("truncated file", at_start, artifact, cut, inputs, cut)
    report.attempt("another artifact", at_start, artifact, other, inputs, "same file")
    report.attempt("damaged file", usage(2, 2, "--stages", "2", "--input-dir", inputs), damaged, inputs, damaged)
    report.attempt("missing input", usage(2, 2, "--input", inputs + "/none.npy"), artifact, inputs, "none.npy")
    report.attempt("unknown option", usage(2, 2, "--frobnicate"), artifact, inputs, "--frobnicate")
    report.attempt("more stages than workers", usage(3, 2, "--stages", "3", "--input-dir", inputs), artifact, inputs, "mpirun -n")
    for rank in (0, 2):
        report.attempt("kill -9 of worker %d" % rank, killed, artifact, inputs, signal.SIGKILL, ("cuvil-worker", "--rank %d" % rank), 4,
                       10, "rank %d on %s" % (rank, host), "%d")
    report.attempt("kill -9 of the gateway", killed, artifact, inputs, signal.SIGKILL, ("cuvil-gateway", ), 4, 10, "gateway", host)
    report.attempt("kill -9 of the coordinator", killed, artifact, inputs, signal.SIGKILL, ("cuvil-coordinator", ), 4, 10, "coordinator",
                   host)
    report.attempt("a worker hangs", killed, artifact, inputs, signal.SIGSTOP, ("cuvil-worker", "--rank 1"), 4, 30,
                   "rank 1 on %s" % host, "has not answered")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        report.attempt("mpirun gets signal %d" % number, launcher, artifact, inputs, number)
    report.finish()


if __name__ == "__main__":
    main()
