# `make demo`, `make test`, `make docs`: each sets up everything it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test checks lint types floors bytecode unit arithmetics fuzz fuzz-atheris bench federation-soak docs dist check-dist clean

demo: $(VENV)/.core
	@$(BIN)/tacit demo

test: checks unit arithmetics

# Tests start some hundred interpreters, and each would compile tacit anew where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

# One core checks types; meanwhile the other one does the rest, and compiles the tests for `unit`,
# whose processes would otherwise all compile them at the same time.
checks: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 types bytecode

lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.dev
	@$(BIN)/mypy

floors: $(VENV)/.dev
	@$(BIN)/lint-imports

bytecode: lint floors
	@$(BIN)/python -m pytest --collect-only --quiet > /dev/null

# The floors whose coverage counts come first: measuring it makes every test a third slower.
# One thread for each process: threads of two processes on two cores wait for each other. Two processes
# more than there are cores: a third of the time of tests is spent waiting for processes of theirs.
WORKERS := $(shell $(PYTHON) -c 'import os; print(2 + (os.cpu_count() or 1))')
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
COVERED := tests/privacy tests/ledger src/tacit/privacy src/tacit/ledger

unit: $(VENV)/.dev
	@$(PYTEST) --cov --cov-report=term $(COVERED)
	@$(PYTEST) $(addprefix --ignore=,$(COVERED))

# What no processor may break, computed as other processors would; about a minute on two cores.
arithmetics: $(VENV)/.dev
	@$(BIN)/python -m tools.arithmetics

# The same fuzz tests as in `make unit`, with many more examples.
fuzz: $(VENV)/.dev
	@TACIT_FUZZ_EXAMPLES=2000 $(BIN)/python -m pytest --numprocesses auto tests/fuzz

# The same readers under Atheris, which looks for new paths through them; stops at what it finds.
fuzz-atheris: $(VENV)/.atheris
	@$(BIN)/python -m tools.fuzz_atheris -max_total_time=300 -print_final_stats=1

# Ratios side by side, next to the recorded ones; `-m benchmarks --record` records.
bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks

# Processes of a federation, killed at random moments, and a thousand sites: hours on two cores.
federation-soak: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.federation_soak --sites 60 --rounds 200
	@$(BIN)/python -m benchmarks.federation_soak --speed
	@$(BIN)/python -m benchmarks.federation_idle --connections 2000
	@$(BIN)/python -m benchmarks.aggregator_soak --sites 60 --rounds 200 --seconds 40 --at-once 8
	@$(BIN)/python -m benchmarks.aggregator_soak --speed

# Strict: a dead link, a page outside the menu or a docstring that does not render is an error.
# (Not with --quiet: mkdocs then counts no warnings, and --strict means nothing.)
docs: $(VENV)/.docs
	@$(BIN)/python -m tools.floors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open site/index.html through a web server: $(BIN)/python -m http.server -d site"

# A wheel and a source archive of each distribution in dist/, from isolated builds.
dist: $(VENV)/.build
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . > /dev/null
	@$(BIN)/python -m build --outdir dist federation > /dev/null
	@ls dist

# Installs the wheels, one after the other, into an empty environment and runs `tacit` from them.
check-dist: dist
	@$(BIN)/python -m tools.check_dist dist

clean:
	rm -rf $(VENV) site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo "Installing tacit into $(VENV) (once) ..."
	@$(PIP) install --editable .
	@touch $@

# torch comes first and pinned, so that nothing else pulls a build of its own.
$(VENV)/.dev: pyproject.toml federation/pyproject.toml | $(VENV)/bin/python
	@echo "Installing tacit and its test tools into $(VENV) (once) ..."
	@$(PIP) install torch==2.13.0
	@$(PIP) install --editable '.[dev]' --editable ./federation
	@touch $@ $(VENV)/.core

$(VENV)/.build: | $(VENV)/bin/python
	@$(PIP) install 'build>=1.2'
	@touch $@

$(VENV)/.atheris: $(VENV)/.dev
	@$(PIP) install 'atheris>=3.0'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	@echo "Installing tacit and its documentation tools into $(VENV) (once) ..."
	@$(PIP) install --editable '.[docs]'
	@touch $@ $(VENV)/.core
