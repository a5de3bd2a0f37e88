"""Every full-size model of make_models.py against its golden. ctest: labels=release,long timeout=5400"""
import os

import cases
from test_tiny import compare

report = cases.Report()
for model in cases.FULL:
    top = cases.goldens([model])
    report.attempt(model, compare, model, os.path.join(top, model))
report.finish()
