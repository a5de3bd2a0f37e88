"""Models whose structure hangs on the request: each request gets its own, whatever was compiled of the model before.

ctest: labels=release timeout=300
"""
import os
import tempfile

import cases
from cases import np

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    cases.skip("onnx")


def squeeze(work):
    """Without axes: dims that are 1 go, which only the request tells."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", ["n", "m"]), ("y", None)))
    graph = helper.make_graph([helper.make_node("Squeeze", ["x"], ["y"])], "squeeze", [x], [y])
    path = os.path.join(work, "squeeze.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def after(first, shapes):
    """Runs requests of these shapes on one cache, which `cuvil FIRST` has looked into before."""
    with tempfile.TemporaryDirectory() as work:
        os.environ["CUVIL_CACHE"] = os.path.join(work, "cache")
        model = squeeze(work)
        if first:
            cases.run([cases.CUVIL, first, model])
        for shape in shapes:
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            np.save(os.path.join(work, "x.npy"), x)
            cases.run([cases.CUVIL, "run", model, "--input", os.path.join(work, "x.npy"), "--output-dir", work, "--format", "npy"])
            got = np.load(os.path.join(work, "output_0.npy"))
            if not np.array_equal(got, x.squeeze()):
                return "of %s came %s" % (list(shape), list(got.shape))
    return None


report = cases.Report()
for command in (None, "inspect"):
    report.attempt("requests after %s" % command, after, command, [(3, 4), (1, 4), (3, 1), (3, 4), (1, 1)])
report.finish()
