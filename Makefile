# Everything runs in .venv, made from python3 and a package index with the pinned versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= auto
# One BLAS thread a test worker: two workers with two threads each are slower than either.
TEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: help setup demo test test-all check lint bench examples clean

help:  ## What there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## Make the virtual environment

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("veil needs Python 3.11 or newer, found " + sys.version.split()[0] + ": run make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## Solve the paper's problem, prove the answer, stand it beside the paper, write the report
	$(BIN)/python examples/demo.py

test: $(READY)  ## All tests but the long runs
	$(TEST) -m "not slow"

test-all: $(READY)  ## All tests, long runs too
	$(TEST)

lint: $(READY)  ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

check: lint test  ## What runs before each commit

bench: $(READY)  ## Benchmarks, side by side in one run; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

clean:  ## Remove what setup and tests made
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis out
