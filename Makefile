# `make demo` and `make test` need Python 3.11+ and nothing else; both install into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# images often forbid Python to keep bytecode: every process would then compile each package that it imports
export PYTHONDONTWRITEBYTECODE :=
# modules are compiled to bytecode when they are first imported: most of these packages never are
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# the extras named, by uv, which takes a third of pip's time, or else by pip; pip also looks for torch where uv does not
define INSTALL
	$(PIP) uv $(2)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[$(1)]' || $(PIP) --editable '.[$(1)]'
	touch $@
endef

.PHONY: demo test test-browser lint fuzz fuzz-long
.PHONY: docs test-matrix bench bench-quick bench-against race experiments clean

demo: $(VENV)/.demo
	$(BIN)/legendre demo --output demo

# Lint and the tests, in parts of which two run at a time. A part imports only what its own tests need: torch and JAX are
# in one part. The first part compiles the kernels, and the others find them compiled. Two processes with two BLAS threads
# each would spend a third of their time waiting for each other. With COVERAGE=1 the parts also measure which lines run,
# and some tests run again with the compiler off, which shows coverage the lines of compiled code.
PYTEST := $(BIN)/python -m pytest --quiet -p no:zarr
first := $(addprefix tests/,faults engines fuzz solvers)
data := $(addprefix tests/,data cli core test_inputs_and_doors.py) docs/guides/arrays.md
tasks := $(addprefix tests/,tasks fitting)
results := $(addprefix tests/,results paper)
others := src README.md docs tests $(addprefix --ignore=,$(first) $(data) $(tasks) $(results))
uncompiled := tests/engines tests/data/test_reading.py tests/data/test_sparse.py -m uncompiled \
	-k "not large_ and not order_12" -W "ignore:overflow encountered:RuntimeWarning"
PARTS := $(addprefix tests-,first data tasks results others $(if $(COVERAGE),uncompiled))

test: $(VENV)/.dev
	rm -f .coverage*
	$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target lint $(PARTS)
ifdef COVERAGE
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
endif

.PHONY: $(PARTS)
tests-uncompiled: export NUMBA_DISABLE_JIT := 1
$(PARTS): export OPENBLAS_NUM_THREADS := 1
$(PARTS): tests-%: $(VENV)/.dev
	$(if $(COVERAGE),COVERAGE_FILE=.coverage.$*) $(PYTEST) $($*) $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=0)

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
	rm -rf $(VENV) demo docs/_build docs/gallery docs/reference/generated .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis fuzz-failures
