# `make demo` and `make test` need Python 3.11+ and nothing else; both install into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# modules are compiled to bytecode when they are first imported: most of these packages never are
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test uncompiled compiling lint bench bench-quick bench-against experiments clean

demo: $(VENV)/.demo
	$(BIN)/legendre demo --output demo

# The tests that compile most run in one process, so that nothing is compiled twice, while the other core checks the
# source and runs the tests marked "uncompiled" with the compiler off, which shows coverage the lines of compiled code.
UNCOMPILED := tests/engines tests/data/test_reading.py tests/data/test_sparse.py tests/data/test_sparse_files.py
COMPILING := tests/data/test_large_paths.py $(UNCOMPILED)
PYTEST := $(BIN)/python -m pytest --quiet --cov --cov-report= --cov-fail-under=0

test: $(VENV)/.dev
	rm -rf .coverage.parts
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target uncompiled compiling
	COVERAGE_FILE=.coverage.parts/rest $(PYTEST) --numprocesses 2 $(COMPILING:%=--ignore=%)
	$(BIN)/python -m coverage combine --quiet .coverage.parts/*
	$(BIN)/python -m coverage report

uncompiled: lint
	NUMBA_DISABLE_JIT=1 COVERAGE_FILE=.coverage.parts/uncompiled $(PYTEST) $(UNCOMPILED) -m uncompiled \
		-k "not large_ and not order_12" -W "ignore:overflow encountered:RuntimeWarning"

compiling: $(VENV)/.dev
	COVERAGE_FILE=.coverage.parts/compiling $(PYTEST) $(COMPILING)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run --report

bench-quick: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run --quick

# make bench-against OLD=../old, where `git worktree add ../old COMMIT` made the older checkout
bench-against: $(VENV)/.bench
	$(BIN)/python -m benchmarks.against $(OLD)

experiments: $(VENV)/.experiments
	$(BIN)/python -m experiments.run

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[demo]'
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[bench]'
	touch $@

$(VENV)/.experiments: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[experiments]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo .coverage .coverage.parts .mypy_cache .pytest_cache .ruff_cache .hypothesis
