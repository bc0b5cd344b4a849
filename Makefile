# Everything runs in .venv, made from python3 and a package index with the pinned versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
RUNS := .venv/.runs
EXTRAS := audit,cluster,fast,graphs,gym,jax,maps,optax,plot,rl,studio
WORKERS ?= auto
INPUTS ?= 200000
SEED ?= 0
JOBS ?= 1
ARGS ?=
AXE := 4.14.0
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One BLAS thread per test worker: two workers with two threads each are slower than either.
TEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal
QUICK := tests/laws tests/test_contract.py tests/test_public.py tests/test_objects.py tests/common/test_memo.py \
  tests/problem/test_secrets.py tests/problem/test_together.py tests/policy/test_memory.py tests/engine/test_walks.py \
  tests/engine/test_returns.py tests/measure/test_against_oracle.py \
  tests/measure/test_pairs_by_all_runs.py tests/game/test_rules.py tests/game/test_multiplier.py \
  tests/proof/test_backward.py tests/proof/test_lies.py tests/planning/test_gradients.py \
  tests/planning/test_extremes.py tests/formats/test_scenario.py tests/formats/test_policies.py tests/formats/test_results.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick test-all check lint bench fuzz mutants validate reproduce docs browser clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## Create the virtual environment .venv with everything the tests need

# The command and its figures: a quarter of a minute. What the tests need is eight times as much.
$(RUNS): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("veil needs Python 3.11 or newer, found " + sys.version.split()[0] + ": run make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[plot]'
	@touch $@

$(READY): $(RUNS)
	$(PIP) 'pip>=25.1'
	$(PIP) -e '.[$(EXTRAS)]' --group dev
	@touch $@

demo: $(RUNS)  ## Solve the paper's problem and an office floor, prove both answers, write the reports
	$(BIN)/veil demo --output out/demo

test: $(READY)  ## Run the tests, except those marked slow (WORKERS=2 sets the number of processes)
	$(TEST) -m "not slow"

test-quick: $(READY)  ## Run the laws, the oracle and the contracts of all rooms in under a minute, for the inner loop
	$(TEST) -m "not slow" $(QUICK)

test-all: $(READY)  ## Run all tests, slow ones included
	$(TEST)

lint: $(READY)  ## Run ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

check: lint test  ## Run lint and test; do this before each commit

docs: $(READY)  ## Build the documentation site in out/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open out/site/index.html"

browser: .venv/share/axe-core/axe.min.js  ## Install Chromium, Node.js and axe-core, which the tests of pages need (Debian and Ubuntu)
	command -v chromium >/dev/null && command -v node >/dev/null || { \
	  if [ "$$(id -u)" -eq 0 ]; then as_root=; else as_root=sudo; fi; \
	  $$as_root apt-get update -qq && $$as_root apt-get install -y -qq --no-install-recommends chromium nodejs; }

.venv/share/axe-core/axe.min.js:
	mkdir -p $(@D)
	curl -fsSL https://registry.npmjs.org/axe-core/-/axe-core-$(AXE).tgz | tar -xz -C $(@D) --strip-components=1 package/axe.min.js
	@touch $@

fuzz: $(READY)  ## Feed mutated files to every reader (INPUTS=200000 SEED=0 JOBS=1)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.formats.fuzz $(INPUTS) --seed $(SEED) --jobs $(JOBS)

mutants: $(READY)  ## Let mutmut change a room's code and see whether its tests notice (ARGS="--room proof --count 60 --seed 0")
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.mutation $(ARGS)

bench: $(READY)  ## Run the benchmarks and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

validate: $(READY)  ## Compute the published figures of other tools and write validation/RESULTS.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m validation

reproduce: $(READY)  ## Run the paper's experiments, output in out/reproduction (ARGS="--quick" or ARGS="--write-docs reproduction")
	$(BIN)/python -m reproduction $(ARGS)

clean:  ## Delete the virtual environment, caches and output
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis out
