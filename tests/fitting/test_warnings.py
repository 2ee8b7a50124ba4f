"""What a fit warns of, although it is what was asked for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import legendre as ld

NOTHING_ON_AXES = np.array([[[0, 0], [0, 3]], [[0, 2], [5, 7]]])


def sparse(X: Any) -> ld.SparseTensor:
    cells = np.argwhere(X)
    return ld.from_coords(cells, X[tuple(cells.T)], X.shape)


@pytest.mark.parametrize("X", [NOTHING_ON_AXES, sparse(NOTHING_ON_AXES)], ids=["dense", "sparse"])
def test_a_basis_without_a_cell_on_the_support_is_told(X: Any) -> None:
    """B1 keeps to the cells of the support; where the axes are empty nothing was fitted, and CONVERGED was all."""
    with pytest.warns(ld.errors.BasisWarning) as told:
        fit = ld.decompose(X, "B1", support="nonzero")
    assert fit.n_params == 0
    assert fit.status is ld.results.Status.CONVERGED
    assert told[0].filename == __file__
    with pytest.warns(ld.errors.BasisWarning):  # a list of no cells, in front, hid that
        ld.decompose(X, "empty | B1", support="nonzero")
    text = str(told[0].message)
    assert text.startswith("B1() has no cell on the support, 4 cells of the grid, so nothing of X was fitted")
    assert "interactions(1) fits the sums of every level" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ld.decompose(X, "interactions(1)", support="nonzero").n_params == 3


@pytest.mark.parametrize("basis", ["empty", np.empty((0, 3), dtype=int)], ids=["empty", "no cells"])
def test_no_parameters_on_request_are_not_warned_of(basis: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ld.decompose(NOTHING_ON_AXES, basis, support="nonzero").n_params == 0
        assert ld.decompose([[[5.0]]], "B1").n_params == 0
