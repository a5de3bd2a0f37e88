"""Every tiny model of make_models.py on 64-bit Arm under qemu-user. ctest: labels=release,long timeout=1800"""
import os

import arm64
from arm64 import cases

top = cases.goldens(cases.TINY)
arm64.prepare()
report = cases.Report()
for model in cases.TINY:
    report.attempt(model, arm64.compare, model, os.path.join(top, model))
report.finish()
