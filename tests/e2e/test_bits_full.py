"""Bits of the full-size models at batch 1: 8 seeded sets of cuts in one process, and three plans under one mpirun, give the
output of one worker, bit for bit. ctest: labels=release,long timeout=5400
"""
import os
import sys

import mpi
import test_bits
import test_mpirun_bits
from mpi import cases

test_mpirun_bits.COUNTS, test_mpirun_bits.TRANSPORTS = (3,), ("shm",)


def compare(name, folder):
    model = os.path.join(folder, "model.onnx")
    return test_bits.compare(name, model, folder, limit=8) or test_mpirun_bits.compare(name, model, folder)


mpi.need_programs()
report = cases.Report()
for model in sys.argv[1:] or cases.FULL:
    report.attempt(model, compare, model, os.path.join(cases.goldens([model], 1), model))
report.finish()
