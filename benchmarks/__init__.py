"""Measurements, run by hand: `python -m benchmarks` runs all of them, `python -m benchmarks exact` one.

Each module has a `TITLE` and `run(settings)`, which measures its contenders side by side and returns Markdown.
"""

import os

MODULES = (
    "exact",
    "sparse_exact",
    "big_tree",
    "gradient",
    "scaling",
    "compiled",
    "brackets",
    "planning",
    "game",
    "spread",
)

# One BLAS thread for every contender, unless the caller says otherwise. On two idle cores a second thread changed
# either side by about a third at most, up or down, at these sizes; with others on the cores, veil's many small products
# became 3 to 20 times slower with it, and that noise would be all that is measured.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
