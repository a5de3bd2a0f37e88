"""What the tests on models share: where things are, making goldens, running, comparing.

Import it first: it starts the test anew with the Python that has numpy (CUVIL_PYTHON), or skips.
"""
import os
import subprocess
import sys


def skip(what):
    print("skipped: no " + what)
    sys.exit(77)


PYTHON = os.environ.get("CUVIL_PYTHON")
if PYTHON and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
    os.execv(PYTHON, [PYTHON] + sys.argv)
try:
    import numpy as np
except ImportError:
    skip("numpy: scripts/install-packages --test")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("CUVIL_BIN", os.path.join(ROOT, "build/release/bin"))
BUILD = os.environ.get("CUVIL_BUILD", os.path.join(ROOT, "build/release"))
CUVIL = os.path.join(BIN, "cuvil")
WORKER = os.path.join(BIN, "cuvil-worker")
MPIRUN = os.path.join(ROOT, "scripts/mpirun")
TINY = ["resnet-tiny", "resnet-bottleneck-tiny", "yolov8-tiny", "yolov8-nms-tiny", "bert-tiny", "whisper-encoder-tiny",
        "whisper-decoder-tiny", "llama-tiny", "unet-tiny", "sdxl-block-tiny", "mlp-tiny", "rnn-tiny", "loop-tiny"]
FULL = ["resnet18", "resnet50", "yolov8n", "yolov8n-nms", "bert-base", "whisper-small-encoder", "whisper-small-decoder",
        "llama-160m", "llama-gqa", "unet", "sdxl-block", "mlp"]
REAL = ["efficientnet-lite0", "efficientnet-lite0-qdq", "minilm-l6", "mtcnn-onet-dynq", "ppocr-det", "silero-vad"]


def shared(*parts):
    """A path below ../shared, or the test is skipped."""
    top = os.environ.get("CUVIL_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
    if not os.path.isdir(top):
        skip("../shared")
    return os.path.join(top, *parts)


def work_dir(name):
    path = os.path.join(BUILD, "test-work", name)
    os.makedirs(path, exist_ok=True)
    return path


def goldens(names, batch=None):
    """Folder of make_models.py's cases NAME/{model.onnx, input_*.npy, output_*.npy}; made once a build folder."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        skip("onnx and onnxruntime")
    out = work_dir("models-%s" % (batch or "golden"))
    missing = [n for n in names if not os.path.exists(os.path.join(out, n, "done"))]
    for name in missing:
        extra = ["--golden-batch", str(batch)] if batch else ["--golden"]
        subprocess.run([sys.executable, shared("models/make_models.py"), "--only", name, "--out", out] + extra, check=True,
                       stdout=subprocess.DEVNULL)
        open(os.path.join(out, name, "done"), "w").close()
    return out


def files(folder, kind):
    """input_0.npy, input_1.npy, ... of a folder."""
    found = []
    while os.path.exists(os.path.join(folder, "%s_%d.npy" % (kind, len(found)))):
        found.append(os.path.join(folder, "%s_%d.npy" % (kind, len(found))))
    return found


def load(folder, kind="output"):
    return [np.load(f) for f in files(folder, kind)]


def run(command, timeout=600, expect=0):
    """Runs a command; its output, or the test ends with what it said."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout)
    if done.returncode != expect:
        raise AssertionError("%s: exit %d, expected %d\n%s%s" % (" ".join(command), done.returncode, expect, done.stdout[-2000:],
                                                                 done.stderr[-2000:]))
    return done


def differs(got, want, atol, rtol, exact_integers=True):
    """None, or in what they differ. atol may be a number or a function of the wanted tensor."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return "%s%s instead of %s%s" % (got.dtype, list(got.shape), want.dtype, list(want.shape))
    if want.dtype.kind in "biu" and exact_integers:
        return None if np.array_equal(got, want) else "%d integers differ" % int((got != want).sum())
    bound = (atol(want) if callable(atol) else atol) + rtol * np.abs(want.astype(np.float64))
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    bad = ~((error <= bound) | ((got != got) & (want != want)) | (got == want))
    if not bad.any():
        return None
    at = np.unravel_index(np.argmax(np.where(bad, error, -1)), bad.shape) if bad.ndim else ()
    return "%d of %d differ, most at %s: %r instead of %r" % (int(bad.sum()), bad.size, list(at), got[at].item(), want[at].item())


def golden_atol(want):
    return 2e-5 * float(np.abs(want).max(initial=0))


class Report:
    """Collects verdicts; the test fails at the end if any failed."""

    def __init__(self):
        self.passed, self.failed = 0, []

    def check(self, name, problem):
        if problem:
            self.failed.append(name)
            print("FAILED %s: %s" % (name, problem), flush=True)
        else:
            self.passed += 1

    def attempt(self, name, function, *args):
        try:
            self.check(name, function(*args))
        except (AssertionError, subprocess.TimeoutExpired, OSError) as e:
            self.check(name, str(e))

    def finish(self):
        print("%d passed, %d failed%s" % (self.passed, len(self.failed), ": " + ", ".join(self.failed) if self.failed else ""))
        sys.exit(1 if self.failed or not self.passed else 0)


def nms(pred, limit, iou, least):
    """ONNX NonMaxSuppression with centred boxes, on yolov8's `pred` [n, 4 + classes, anchors]: the `selected` it must give."""
    picked = []
    for n in range(pred.shape[0]):
        cx, cy, w, h = (pred[n, i].astype(np.float32) for i in range(4))
        x1, y1, x2, y2 = cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2
        area = (x2 - x1) * (y2 - y1)
        for c in range(pred.shape[1] - 4):
            score = pred[n, 4 + c]
            kept = []
            for i in np.argsort(-score, kind="stable"):
                if score[i] <= least or len(kept) == limit:
                    break
                ok = True
                for j in kept:
                    width = min(x2[i], x2[j]) - max(x1[i], x1[j])
                    height = min(y2[i], y2[j]) - max(y1[i], y1[j])
                    if width > 0 and height > 0 and width * height / (area[i] + area[j] - width * height) > iou:
                        ok = False
                        break
                if ok:
                    kept.append(i)
            picked += [[n, c, int(i)] for i in kept]
    return np.array(picked, np.int64).reshape(-1, 3)
