"""What the tests for 64-bit Arm share: cuvil cross-compiled, run under qemu-user, compared with the goldens."""
import fcntl
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import cases  # noqa: E402
import test_tiny  # noqa: E402

FOLDER = os.path.join(cases.BUILD, "arm64")
SYSROOT = os.path.join(cases.ROOT, "build/arm64-sysroot")


def prepare():
    """Builds cuvil for 64-bit Arm; the test is skipped where the tools or Debian's packages are out of reach."""
    for program in ("qemu-aarch64", "aarch64-linux-gnu-gcc"):
        if not shutil.which(program):
            cases.skip(program)
    os.makedirs(FOLDER, exist_ok=True)
    with open(FOLDER + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test may do the same now
        if subprocess.run([os.path.join(cases.ROOT, "scripts/arm64-sysroot")], stdout=subprocess.DEVNULL).returncode != 0:
            cases.skip("arm64 packages (said above)")
        cases.run(["cmake", "--preset", "arm64", "-S", cases.ROOT, "-B", FOLDER])
        cases.run(["cmake", "--build", FOLDER, "--parallel", "2", "--target", "cuvil"])


def emulated(cpu):
    return ["qemu-aarch64", "-cpu", cpu, "-L", SYSROOT, os.path.join(FOLDER, "bin/cuvil")]


def build(name, folder, *targets):
    artifact = os.path.join(cases.work_dir("aarch64"), name + ".cuv")
    chosen = [word for target in targets for word in ("--target", target)]
    cases.run([cases.CUVIL, "build", os.path.join(folder, "model.onnx"), "-o", artifact] + chosen)
    return artifact


def run(artifact, folder, name, *more, cpu="cortex-a53"):
    """The answer to a model's stored input, under emulation."""
    out = os.path.join(cases.work_dir("aarch64"), name)
    shutil.rmtree(out, ignore_errors=True)
    cases.run(emulated(cpu) + ["run", artifact, "--input-dir", folder, "--output-dir", out] + list(more))
    return cases.load(out)


def compare(name, folder):
    return test_tiny.judge(name, run(build(name, folder, "native", "aarch64"), folder, name), cases.load(folder))
