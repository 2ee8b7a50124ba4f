# `make demo` and `make test` need Python 3.11+ and nothing else; both install into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# modules are compiled to bytecode when they are first imported: most of these packages never are
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# the extras named, by uv, which takes a third of pip's time, or else by pip; pip also looks for torch where uv does not
define INSTALL
	$(PIP) uv $(2)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[$(1)]' || $(PIP) --editable '.[$(1)]'
	touch $@
endef

.PHONY: demo test test-browser traced checked untraced uncompiled threads lint fuzz fuzz-long
.PHONY: docs test-matrix bench bench-quick bench-against race experiments clean

demo: $(VENV)/.demo
	$(BIN)/legendre demo --output demo

# Two processes, one for each core, which take about as long as each other. The first runs all tests that are not named
# here. The second runs without coverage, whose tracer costs a third: the tests that compile most, those that start
# processes of their own, which coverage does not see, and some that reach no lines that others do not. Then it checks the
# source, and runs the tests marked "uncompiled" with the compiler off, which shows coverage the lines of compiled code.
UNCOMPILED := tests/engines tests/data/test_reading.py tests/data/test_sparse.py tests/data/test_sparse_files.py
UNTRACED := docs README.md tests/test_documentation.py tests/engines tests/data/test_large_paths.py \
	tests/data/test_reading.py tests/data/test_array_libraries.py tests/fitting/test_determinism.py tests/faults tests/fuzz \
	tests/paper tests/test_inputs_and_doors.py tests/tasks/test_every_kind_of_x.py tests/tasks/test_hidden.py \
	tests/solvers/test_faces.py tests/test_benchmarks.py tests/test_experiments.py tests/test_race.py tests/test_ci.py \
	tests/test_site.py
# plugins that read the source of every test, or import a library, before the first test runs
PYTEST := $(BIN)/python -m pytest --quiet -p no:run-parallel -p no:zarr
WITH_COVERAGE = COVERAGE_FILE=.coverage-parts/$@ $(PYTEST) --cov --cov-report= --cov-fail-under=0

test: $(VENV)/.dev
	rm -rf .coverage-parts
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target traced checked
	$(BIN)/python -m coverage combine --quiet .coverage-parts/*
	$(BIN)/python -m coverage report

# one after the other: the compiled code of the first is there for the other process soon
checked: $(VENV)/.dev
	$(MAKE) --no-print-directory untraced
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory uncompiled

untraced: $(VENV)/.dev
	$(PYTEST) $(UNTRACED)

uncompiled: $(VENV)/.dev
	NUMBA_DISABLE_JIT=1 $(WITH_COVERAGE) $(UNCOMPILED) -m uncompiled \
		-k "not large_ and not order_12" -W "ignore:overflow encountered:RuntimeWarning"

traced: $(VENV)/.dev
	$(WITH_COVERAGE) $(UNTRACED:%=--ignore=%)

# The report page in chromium, which is installed where that is possible; without it the tests are skipped, but fail
# where LEGENDRE_CI is set.
test-browser: $(VENV)/.dev
	tools/chromium
	$(PYTEST) tests/browser

# The site, in docs/_build/html: every script of examples/ is run, a warning is an error, links inside are checked.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

# The wheel and the source archive, installed and tried on every supported Python that is found here, with the oldest
# packages that pyproject.toml allows and with the newest.
test-matrix: | $(BIN)/python
	$(PIP) uv
	$(BIN)/python tools/test_matrix.py

# Generated calls of everything public, judged by brute force (docs/background/reliability.md): a fresh seed unless SEED= is given.
# make fuzz takes minutes; make fuzz-long CASES=500000 takes hours. Cases that fail are kept in fuzz-failures/.
CASES ?= 100000
JOBS ?= 2
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz.run --cases 3000 --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

fuzz-long: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz.run --cases $(CASES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

# Tests in four threads at once, one folder after the other. Left to `make test`: those that change what all threads share
# (monkeypatch, captured output, numbers of threads), and folders that start processes, time their cases by signals, or
# read pages. A thread draws a quarter of a property's examples.
THREADED = basis core data engines fitting model paper results solvers tasks
threads: $(VENV)/.dev
	failed=; for part in $(THREADED); do echo "tests/$$part"; \
		$(BIN)/python -m pytest --quiet --parallel-threads=4 --skip-thread-unsafe=true tests/$$part || failed="$$failed $$part"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run --report

bench-quick: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run --quick

# The package beside the strongest libraries of each of its tasks, and docs/background/race.md. About twenty minutes; if it
# is interrupted, the next call continues.
race: $(VENV)/.race
	$(BIN)/python -m benchmarks.race.run

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
	$(call INSTALL,demo)

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(call INSTALL,bench)

$(VENV)/.race: pyproject.toml | $(BIN)/python
	$(call INSTALL,race)

$(VENV)/.experiments: pyproject.toml | $(BIN)/python
	$(call INSTALL,experiments)

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(call INSTALL,docs)

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(call INSTALL,dev,$(shell grep -o 'torch==[0-9.]*' pyproject.toml))

clean:
	rm -rf $(VENV) demo docs/_build docs/gallery docs/reference/generated .coverage .coverage-parts .mypy_cache .pytest_cache .ruff_cache .hypothesis fuzz-failures
