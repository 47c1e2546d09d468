# Two commands: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint types floors unit bench clean

demo: $(VENV)/.core
	@$(BIN)/tacit demo

test: lint types floors unit

lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.dev
	@$(BIN)/mypy

floors: $(VENV)/.dev
	@$(BIN)/lint-imports

unit: $(VENV)/.dev
	@$(BIN)/python -m pytest --numprocesses auto --cov --cov-report=term

bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.privacy
	@$(BIN)/python -m benchmarks.noise
	@$(BIN)/python -m benchmarks.features
	@$(BIN)/python -m benchmarks.teachers

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo "Installing tacit into $(VENV) (once) ..."
	@$(PIP) install --editable .
	@touch $@

# torch comes first and pinned, so that nothing else pulls a build of its own.
$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing tacit and its test tools into $(VENV) (once) ..."
	@$(PIP) install torch==2.13.0
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.core
