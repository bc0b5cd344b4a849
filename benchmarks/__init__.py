"""Measurements, run by hand: `python -m benchmarks` runs all of them, `python -m benchmarks exact` one.

Each module has a `TITLE` and `run(settings)`, which measures its contenders side by side and returns Markdown.
"""

import os

MODULES = ("exact", "big_tree")

# One BLAS thread for every contender, unless the caller says otherwise: on two idle cores a second one gains neither
# side anything on these sizes, and on busy cores it costs a factor of ten, which would be all that is measured.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
