"""One setting for threads: it holds inside its block, for the thread that entered it, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import cached_property

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import legendre as ld
from legendre.core.errors import InvalidSetting
from legendre.core.sums.linalg import all_threads, one_thread
from legendre.core.threads import most_threads

INSIDE = """
import threading
import numpy as np
import legendre as ld
import scipy.linalg
from threadpoolctl import threadpool_info
from legendre.core import compiled, limits
from legendre.core.sums.linalg import all_threads, few_threads, one_thread, product_threads

def blas():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

def within(section):
    with section:
        return blas()

assert blas() == {2}
assert within(all_threads()) == {2}
assert within(few_threads(limits.ONE_BLAS_THREAD)) == {2}
assert within(few_threads(limits.ONE_BLAS_THREAD - 1)) == {1}
assert within(one_thread()) == {1}
assert within(product_threads(10, 10, 10)) == {2}  # too small for BLAS to start threads: not worth a change
assert within(product_threads(100, 100, 100)) == {1}
assert within(product_threads(2000, 2000, 2000)) == {2}
assert compiled.available_threads() == 2
seen = []
with ld.threads(1):
    assert within(all_threads()) == {1}
    assert within(few_threads(limits.ONE_BLAS_THREAD)) == {1}
    assert compiled.available_threads() == 1
    assert blas() == {2}  # other code of the process is left alone
    other = threading.Thread(target=lambda: seen.append((within(all_threads()), compiled.available_threads())))
    other.start()
    other.join()
with ld.threads(5):
    assert within(all_threads()) == {2}  # at most so many, not more than there are
assert seen == [({2}, 2)], seen
assert blas() == {2}
assert compiled.available_threads() == 2
"""


def test_what_runs_in_how_many_threads() -> None:
    names = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    env = {**os.environ, **dict.fromkeys(names, "2")}
    subprocess.run([sys.executable, "-c", INSIDE], env=env, check=True)


def test_blocks_nest_and_end() -> None:
    assert most_threads() is None
    with ld.threads(2):
        with ld.threads(1):
            with ld.threads(3):
                assert most_threads() == 1
            assert most_threads() == 1
        assert most_threads() == 2
        with pytest.raises(KeyError), ld.threads(1):
            raise KeyError
        assert most_threads() == 2
    assert most_threads() is None


def test_each_thread_has_its_own_setting() -> None:
    started, seen = threading.Barrier(2), {}

    def ask(n: int) -> None:
        with ld.threads(n):
            started.wait(10)
            seen[n] = most_threads()
            started.wait(10)

    both = [threading.Thread(target=ask, args=(n,)) for n in (1, 2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert seen == {1: 1, 2: 2}


@pytest.mark.parametrize("most", [0, -1, 1.5, "2", None, True])
def test_numbers_that_are_refused(most: object) -> None:
    with pytest.raises(InvalidSetting, match="threads must be an integer >= 1"), ld.threads(most):  # type: ignore[arg-type]
        pass


def test_answers_have_the_same_bits() -> None:
    X = np.random.default_rng(0).gamma(1.0, size=(12, 10, 8))
    free = ld.decompose(X, ld.B3(12), solver="natural"), ld.smooth(X)
    with ld.threads(1):
        held = ld.decompose(X, ld.B3(12), solver="natural"), ld.smooth(X)
    for one, other in zip(free, held, strict=True):
        assert_array_equal(one.theta, other.theta)


def test_a_value_that_waits_for_blas_does_not_keep_others_from_theirs() -> None:
    """Two threads waited for each other for ever: one for its turn inside a kept property, one, in turn, for it."""
    waiting, done = threading.Event(), threading.Event()

    class Kept:
        @cached_property
        def value(self) -> int:
            waiting.set()
            with all_threads():
                return 1

    def grow() -> None:
        with one_thread():
            threading.Thread(target=lambda: Kept().value, daemon=True).start()
            assert waiting.wait(10)
            assert Kept().value == 1
            done.set()

    threading.Thread(target=grow, daemon=True).start()
    assert done.wait(10)
