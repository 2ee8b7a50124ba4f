"""Reproducible property tests: the same examples on every run and every machine."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings, strategies

settings.register_profile(
    "reproducible",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("threads", settings.get_profile("reproducible"), max_examples=15)
settings.load_profile("reproducible")


def pytest_configure(config: pytest.Config) -> None:
    """Where every test runs in several threads (`make threads`), let each of them draw a share of the examples."""
    if str(config.getoption("parallel_threads", 1)) != "1":
        settings.load_profile("threads")
        ast.literal_eval = _parsed_in_turn  # of NumPy, which parses the headers of files that tests read by `np.load`


_PARSING = threading.Lock()


def _parsed_in_turn(node_or_string: str | ast.AST, plain: Callable[..., Any] = ast.literal_eval) -> Any:
    """Evaluate a literal as Python does; Python 3.11 fails where two threads parse at a time, so one at a time does."""
    text = node_or_string
    with _PARSING:
        return plain(text)


def pytest_sessionstart() -> None:
    """Let coverage's tracer rest while functions are compiled: it takes a third of that time, and none are ours."""
    if sys.gettrace() is None or os.environ.get("NUMBA_DISABLE_JIT"):
        return
    from numba.core import event

    class Untraced(event.Listener):  # type: ignore[misc]  # numba has no types
        tracers: ClassVar[list[Any]] = []  # functions are compiled within functions: the outermost has the tracer

        def on_start(self, event: object) -> None:
            del event
            self.tracers.append(sys.gettrace())
            sys.settrace(None)

        def on_end(self, event: object) -> None:
            del event
            sys.settrace(self.tracers.pop())

    event.register("numba:compile", Untraced())


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Set JAX to double precision, in all threads: `jax.enable_x64` holds for its own."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20180317)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Run compiled code in one thread: waking a second one costs more than all of a small problem."""
    import numba

    wanted = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(wanted)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where every test runs in several threads: keep apart what its threads would share.

    Only a test's own `tmp_path` is one for each thread: a test whose fixtures share a folder runs in one.
    """
    if str(config.getoption("parallel_threads", 1)) == "1":
        return
    strategies.randoms(use_true_random=False).validate()  # loads a module; Python 3.11 parses no two at a time
    for item in items:
        function = getattr(item, "function", None)
        named = () if function is None else inspect.signature(function).parameters
        if "tmp_path" in getattr(item, "fixturenames", ()) and "tmp_path" not in named:
            item.add_marker(pytest.mark.thread_unsafe(reason="its fixtures share a folder"))
        names = _names_used_by(function)
        if "MonkeyPatch" in names and "PATCHING" not in names:
            item.add_marker(pytest.mark.thread_unsafe(reason="changes what all threads share"))
        if "rng" in named and not is_hypothesis_test(function):
            item.obj = with_its_own_numbers(item.obj)  # type: ignore[attr-defined]


def _names_used_by(function: Any) -> tuple[str, ...]:
    """List the global names and attributes in a test, which for a property is wrapped."""
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    return getattr(getattr(inner, "__code__", None), "co_names", ())


def with_its_own_numbers(test: Callable[..., None]) -> Callable[..., None]:
    """Let each thread of a test draw the numbers that it would draw alone."""

    @functools.wraps(test)
    def alone(*given: Any, rng: np.random.Generator, **named: Any) -> None:
        test(*given, rng=copy.deepcopy(rng), **named)

    return alone


TRACED = 4  # cases of a parametrized test that coverage sees: the others mostly reach the same lines
_seen: Counter[str] = Counter()  # cases of each test so far


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run property tests, and further cases of a test, without coverage's tracer, which takes a third of their time.

    Tests that run with the compiler off are there to be traced.
    """
    tracer, name = sys.gettrace(), item.nodeid.partition("[")[0]
    _seen[name] += 1
    many = _seen[name] > TRACED or is_hypothesis_test(getattr(item, "obj", None))
    if many and not item.get_closest_marker("uncompiled"):
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Call the command line in this process, in an empty folder; return exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        from legendre.cli import main

        monkeypatch.setattr(sys, "argv", ["legendre", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return code or 0, out, err

    return run
