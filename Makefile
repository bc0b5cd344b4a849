# Everything runs in .venv, made from python3 and a package index with the pinned versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= auto
INPUTS ?= 200000
SEED ?= 0
JOBS ?= 1
# One BLAS thread a test worker: two workers with two threads each are slower than either.
TEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: help setup demo test test-all check lint bench fuzz reproduce docs browser clean

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

fuzz: $(READY)  ## Mutated files through all readers: INPUTS=200000 SEED=0 JOBS=1
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.formats.fuzz $(INPUTS) --seed $(SEED) --jobs $(JOBS)

bench: $(READY)  ## Benchmarks, side by side in one run; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

reproduce: $(READY)  ## Run the paper's experiments into out/reproduction; ARGS="--quick", or ARGS="--write-docs docs"
	$(BIN)/veil reproduce paper -o out/reproduction $(ARGS)

docs: $(READY)  ## Build the documentation site into out/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open out/site/index.html"

browser:  ## Install Chromium, in which a test opens the report (Debian and Ubuntu)
	command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" -eq 0 ]; then as_root=; else as_root=sudo; fi; \
	  $$as_root apt-get update -qq && $$as_root apt-get install -y -qq --no-install-recommends chromium; }

clean:  ## Remove what setup and tests made
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis out
