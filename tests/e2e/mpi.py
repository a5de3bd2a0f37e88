"""What the tests under mpirun share: a job as a process group of its own, its processes, what it leaves behind."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import cases  # noqa: E402

CONTROL = ("cuvil-worker", "cuvil-coordinator", "cuvil-gateway")


def need_programs():
    for program in ("cuvil",) + CONTROL:
        if not os.path.exists(os.path.join(cases.BIN, program)):
            cases.skip(program)


def build(name, model, *options):
    """The model's artifact in the test's folder."""
    path = os.path.join(cases.work_dir("mpirun"), name + ".cuv")
    cases.run([cases.CUVIL, "build", model, "-o", path] + list(options))
    return path


def worker(artifact, *options):
    return [cases.WORKER, artifact] + [str(o) for o in options]


class Job:
    """mpirun -n N COMMAND, or several of them ([(n, command), ...]), running."""

    def __init__(self, parts, timeout=60):
        words = [cases.MPIRUN]
        for i, (n, command) in enumerate(parts):
            words += ([":"] if i else []) + ["-n", str(n)] + command
        self.begin, self.timeout = time.monotonic(), timeout
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.seen = set()

    def processes(self):
        """(pid, command line) of mpirun and all below it; those seen once are remembered."""
        below, found = {}, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    below.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(pid))
            except OSError:
                pass
        todo = [self.process.pid]
        while todo:
            pid = todo.pop()
            todo += below.get(pid, [])
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    found.append((pid, f.read().replace("\0", " ").strip()))
            except OSError:
                pass
        self.seen |= {pid for pid, command in found if any(c in command for c in CONTROL)}
        return found

    def wait_for(self, *parts):
        """The pid of the first process whose command line has all the parts, as soon as it is there."""
        until = time.monotonic() + 20
        while time.monotonic() < until and self.process.poll() is None:
            for pid, command in self.processes():
                program = os.path.basename(command.split(" ")[0])
                if program == parts[0] and all(p in command for p in parts[1:]):
                    return pid
            time.sleep(0.05)
        out = self.end()
        raise AssertionError("no process %s: %s" % (" ".join(parts), out.stderr[-1000:]))

    def end(self):
        """Waits until it has ended; what it said, its exit code and how long it took since begin."""
        try:
            out, err = self.process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            for pid, _ in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            out, err = self.process.communicate()
            raise AssertionError("the job did not end in %d s\n%s%s" % (self.timeout, out[-1000:], err[-1000:])) from None
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)

    def leftovers(self):
        """Processes of the job that still run a second later (a zombie runs no more)."""
        until = time.monotonic() + 3
        left = self.seen
        while left and time.monotonic() < until:
            time.sleep(0.1)
            left = {pid for pid in left if alive(pid)}
        return left


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def shared_memory():
    return set(os.listdir("/dev/shm"))


def write_plans(folder, artifact, sets):
    """Plan files of (cuts, micro-batch, threads), and a list of them for --plans."""
    os.makedirs(folder, exist_ok=True)
    steps = len(json.loads(cases.run([cases.CUVIL, "inspect", artifact, "--json"]).stdout)["steps"])
    paths = []
    for k, (cuts, micro_batch, threads) in enumerate(sets):
        bounds = [0] + sorted(cuts) + [steps]
        plan = {"artifact": None, "order": None, "micro_batch": micro_batch, "threads": threads,
                "stages": [{"device": "w%d" % i, "first": bounds[i], "last": bounds[i + 1] - 1} for i in range(len(bounds) - 1)]}
        paths.append(os.path.join(folder, "plan_%d.json" % k))
        with open(paths[-1], "w") as f:
            json.dump(plan, f)
    with open(os.path.join(folder, "plans"), "w") as f:
        f.write("\n".join(paths) + "\n")
    return os.path.join(folder, "plans")
