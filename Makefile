# Every target sets up what it needs: a fresh machine with python3, make and git is enough.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
GPU_JOBS ?= 8

# Tests start hundreds of processes. Each would compile every module anew if Python may not keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-arch test-arch-root test-gpu check-gpu fuzz bench ci lint types docs-check docs site clean help

help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

demo: $(VENV)/.demo ## run every kernel of the collection: correct? how fast beside torch or NumPy?
	$(BIN)/python -m tritium demo

test: $(VENV)/.test ## the whole test suite without a GPU, and the examples in docstrings
	$(BIN)/python -m pytest -n $(JOBS) -q
	$(BIN)/python -m pytest -n $(JOBS) -q --doctest-modules tritium

test-all: $(VENV)/.test ## every combination of the parameters that `make test` takes a sample of: an hour
	$(BIN)/python -m pytest -n $(JOBS) -q --all

ROOT ?= $(VENV)/foreign
test-arch: $(VENV)/.test ## the execution tests at every level of this CPU, and on the other architecture under QEMU
	TRITIUM_FOREIGN_ROOT=$${TRITIUM_FOREIGN_ROOT:-$$(test -d $(ROOT) && echo $(ROOT))} \
		$(BIN)/python tests/arch/run.py --jobs $(JOBS)

test-arch-root: $(VENV)/.test ## a Python of the other architecture for QEMU, where apt-get is: 320 MB
	$(BIN)/python tests/arch/root.py $(ROOT)

GPU_PYTEST = PYTHONPATH=$(CURDIR) python3 -m pytest -q -m gpu $(shell python3 -c 'import xdist' 2>/dev/null && echo "-n $(GPU_JOBS)")
test-gpu: ## tests that need a GPU, NVIDIA's or AMD's, with this machine's own python3: nothing is installed
	$(GPU_PYTEST)
	if command -v nvidia-smi > /dev/null; then TEST_NUM_CTAS=2 $(GPU_PYTEST) tests/compat tests/language; fi

check-gpu: ## the benchmarks' kernels under compute-sanitizer: accesses out of bounds, races in shared memory
	PYTHONPATH=$(CURDIR) compute-sanitizer --tool memcheck --error-exitcode 1 python3 benchmarks/gpu_small.py
	PYTHONPATH=$(CURDIR) compute-sanitizer --tool racecheck --error-exitcode 1 python3 benchmarks/gpu_small.py

fuzz: $(VENV)/.test ## random programs: the backends must agree with the interpreter
	$(BIN)/python -m pytest -n $(JOBS) -q tests/properties --hypothesis-profile=fuzz
	TRITIUM_TEST_EMULATED=all $(BIN)/python -m pytest -n $(JOBS) -q tests/backends/amdgcn/test_emulated_random.py \
		--hypothesis-profile=fuzz

BENCH ?=
bench: $(VENV)/.test ## measure the kernels beside torch, say what changed since the last time; BENCH="softmax --threads 1"
	$(BIN)/python -m tritium bench run --compare $(BENCH)

# pyright works on one processor for a minute or more: meanwhile the other checks go on.
ci: $(VENV)/.ci ## all that a change has to pass: what .ci/run runs
	$(MAKE) -j2 lint types docs-check test

lint: $(VENV)/.lint ## style
	$(BIN)/ruff check .

types: $(VENV)/.types ## types
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.test ## write the generated pages and the type stubs again
	$(BIN)/python docs/make_tour.py
	$(BIN)/python docs/make_ir.py
	$(BIN)/python docs/make_environment.py
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_coverage.py
	$(BIN)/python docs/make_stubs.py

docs-check: $(VENV)/.test ## the generated pages are up to date, and links, paths and commands in documents exist
	$(BIN)/python docs/make_tour.py --check
	$(BIN)/python docs/make_ir.py --check
	$(BIN)/python docs/make_environment.py --check
	$(BIN)/python docs/make_figures.py --check
	$(BIN)/python docs/make_stubs.py --check
	$(BIN)/python -m pytest -q tests/test_repository.py -k "documents or map or readme"

site: $(VENV)/.docs ## the documentation as a site, in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

clean: ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "tritium needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch is the yardstick of the demo, not a need of it: without torch the kernels run on NumPy arrays.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install -q torch==2.13.0 \
		|| echo "torch could not be installed: the demo compares with NumPy"
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[test]"
	@touch $@ $(VENV)/.demo

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[lint]"
	@touch $@

# pyright looks into the packages that are imported, so it needs them as the tests do; its extra brings a node of its own.
$(VENV)/.types: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install -q -e ".[test,types]"
	@touch $@

# What all checks need, at once: pip looks for packages once, and checks that run beside each other install nothing.
$(VENV)/.ci: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[lint,test,types]"
	@touch $@ $(VENV)/.lint $(VENV)/.test $(VENV)/.types $(VENV)/.demo

# The API reference is made of docstrings, tritium.torch's too, so it needs what the tests do.
$(VENV)/.docs: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install -q -e ".[test,docs]"
	@touch $@
