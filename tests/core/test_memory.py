"""Memory: how much is free, and requests that are refused before anything is allocated."""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legendre as ld
from legendre.core import limits, memory

GIB = float(1 << 30)


def test_what_is_small_is_taken_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 0.0)
    memory.check_room(1000, 8, "a grid", "Ask for less.")
    with pytest.raises(ld.errors.TooLarge, match=r"a grid of 1e\+09 cells needs 7.45 GiB; 0 GiB are free. Ask for"):
        memory.check_room(10**9, 8, "a grid", "Ask for less.")


def test_free_memory_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert memory.free_memory() > 0
    monkeypatch.delattr("os.sysconf")
    assert memory.free_memory() == math.inf


def binary(order: int) -> ld.Decomposition:
    """Fit a product over modes with two levels, on a grid that is never formed."""
    return ld.decompose(ld.from_coords(np.array([[0] * order, [1] * order]), [1.0, 2.0], [2] * order), "B1")


def listed() -> ld.Decomposition:
    """Fit on a list of cells of a large grid."""
    X = ld.from_coords([[0, 0], [1, 1], [1, 0]], [1.0, 2.0, 3.0], [10**5] * 2)
    return ld.decompose(X, [[1, 0]], support="nonzero")


def long_modes() -> tuple[ld.Decomposition, np.ndarray[Any, np.dtype[np.int64]]]:
    """Fit a product of two modes, 20,000,000,000 cells, of which most levels have no data; and the cells of X."""
    rng = np.random.default_rng(0)
    cells = np.c_[rng.integers(0, 100_000, 3000), rng.integers(0, 200_000, 3000)]
    return ld.decompose(ld.from_coords(cells, np.ones(3000), (100_000, 200_000)), "interactions(1)"), cells


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "tensor": (lambda: binary(31).tensor(), r"tensor: an array of 2.15e\+09 cells needs 64 GiB; .* Ask for log_prob"),
    "eta_tensor": (lambda: binary(31).eta_tensor(), "eta_tensor: an array .* needs 80 GiB; .* On the basis"),
    "marginal": (
        lambda: binary(31).marginal(list(range(30))),
        r"the joint distribution of 30 modes: an array of 1.07e\+09 cells needs 16 GiB; .* Ask for fewer modes",
    ),
    "marginal-of-two": (
        lambda: long_modes()[0].marginal([0, 1]),
        r"the joint distribution of modes \[0, 1\]: an array of 2e\+10 cells needs 298 GiB; 8 GiB are free. Ask",
    ),
    "sample": (
        lambda: ld.decompose([[1, 2], [3, 4]], "B1").sample(10**10),
        r"sample: a list of 1e\+10 cells needs 447 GiB; .* Draw fewer at a time",
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_answers_that_do_not_fit_are_refused_before_they_are_formed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, text = REFUSED[name]
    monkeypatch.setattr(memory, "free_memory", lambda: 8 * GIB)
    with pytest.raises(ld.errors.TooLarge, match=text):
        ask()


def test_a_conditional_takes_the_memory_of_its_answer() -> None:
    """It is 200,000 numbers, and so is the margin that it equals; the table of both modes is never laid out."""
    fit, cells = long_modes()
    margin = np.bincount(cells[:, 1], minlength=200_000) / 3000
    asked: list[Callable[[], Any]] = [
        lambda: fit.condition({0: int(cells[0, 0])}),
        lambda: fit.marginal(1, given={0: int(cells[0, 0])}),
        lambda: fit.marginal(1),
    ]
    tracemalloc.start()
    try:
        for ask in asked:
            np.testing.assert_allclose(ask(), margin, atol=1e-15)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("basis", ["interactions(1)", "interactions(2)"])
def test_a_fisher_matrix_of_too_many_parameters_is_refused_before_it_is_formed(
    basis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the engine: a product over modes, cliques, a grid, a list of cells; 298 GiB were asked of NumPy."""
    places = np.arange(100_000)
    product = ld.decompose(ld.from_coords(np.c_[places, places], np.ones(100_000), (100_000,) * 2), "interactions(1)")
    with pytest.raises(
        ld.errors.InvalidQuery, match=r"^fisher\(\) needs a Fisher matrix of 199,998 x 199,998; at most 10,000 par"
    ):
        product.fisher()
    rng = np.random.default_rng(0)
    chain = ld.decompose(ld.from_rows(rng.integers(0, 2, (500, 40)), levels=2), ld.interactions([(0, 1)]))
    grid = ld.decompose(rng.random((3, 4, 5)), basis)
    on_a_list = listed()
    monkeypatch.setattr(limits, "LARGEST_MATRIX", 0)
    for fit in (chain, grid, on_a_list):
        with pytest.raises(ld.errors.InvalidQuery, match=f"Fisher matrix of {fit.n_params} x .*; at most 0 parameters"):
            fit.fisher()


def test_a_base_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 40.0)
    ones = np.ones((2000, 3000))
    with pytest.raises(ld.errors.TooLarge, match=r"base: a measure of 6e\+06 cells needs .* leave it out"):
        ld.decompose(ones, "B1", base=ones)
