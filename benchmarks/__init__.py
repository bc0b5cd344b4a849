"""Measurements, run by hand: `python -m benchmarks` runs all of them, `python -m benchmarks exact` one.

Each module has a `TITLE` and `run(settings)`, which measures its contenders side by side and returns Markdown.
"""

MODULES = ("exact", "big_tree")
