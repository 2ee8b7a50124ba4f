"""Settings that cannot be, and those at their limits that can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legendre as ld

X = np.arange(1.0, 7.0).reshape(2, 3)

BAD: list[tuple[dict[str, Any], str]] = [
    ({"tol": -1e-3}, r"tol must be a number >= 0, got -0\.001"),
    ({"tol": float("nan")}, "tol must be a number >= 0, got nan"),
    ({"tol": "1e-3"}, "tol must be a number >= 0, got '1e-3'"),
    ({"tol": True}, "tol must be a number >= 0, got True"),
    ({"tol": None}, "tol must be a number >= 0, got None"),
    ({"max_iter": -1}, "max_iter must be an integer >= 0, got -1"),
    ({"max_iter": 2.0}, r"max_iter must be an integer >= 0, got 2\.0"),
    ({"max_iter": True}, "max_iter must be an integer >= 0, got True"),
    ({"max_iter": "5"}, "max_iter must be an integer >= 0, got '5'"),
    (
        {"solver": "naturel"},
        r"unknown solver 'naturel'; did you mean 'natural'\? Valid: auto, closed, gradient",
    ),
    ({"solver": "xyz"}, "unknown solver 'xyz'; Valid: auto"),
    ({"solver": 3}, r"solver must be a name or a solver object such as Natural\(\), got 3"),
    ({"solver": None}, r"solver must be a name or a solver object such as Natural\(\), got None"),
    ({"start": [0.0]}, r"start must hold 3 finite numbers, one per parameter; got shape \(1,\)"),
    ({"start": np.zeros((3, 1))}, r"start must hold 3 finite numbers.*got shape \(3, 1\)"),
    ({"start": [0.0, np.nan, 0.0]}, "start must hold 3 finite numbers"),
    ({"start": [0.0, np.inf, 0.0]}, "start must hold 3 finite numbers"),
    ({"start": 0.0}, r"start must hold 3 finite numbers, one per parameter; got shape \(\)"),
    ({"start": ["a", "b", "c"]}, "start must hold 3 finite numbers"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=str)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=message):
        ld.decompose(X, "B1", **settings)


GRADIENT: list[tuple[dict[str, Any], str]] = [
    ({"form": "both"}, "gradient: form must be 'sweep' or 'batch', got 'both'"),
    ({"learning_rate": 0.0}, r"gradient: learning_rate must be a finite number > 0, got 0\.0"),
    ({"learning_rate": -1.0}, r"got -1\.0"),
    ({"learning_rate": float("inf")}, "got inf"),
    ({"learning_rate": float("nan")}, "got nan"),
]


@pytest.mark.parametrize(("settings", "message"), GRADIENT, ids=str)
def test_bad_settings_of_the_gradient(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=message):
        ld.solvers.Gradient(**settings)


@pytest.mark.parametrize("tol", [1, np.float32(1e-3), np.int64(1), float("inf")], ids=repr)
def test_any_number_is_a_tolerance(tol: float) -> None:
    assert ld.decompose(X, "B1", tol=tol).converged


def test_numpy_integers_are_limits() -> None:
    assert ld.decompose(X, "B1", max_iter=np.int32(50)).converged  # type: ignore[arg-type]


def test_the_basis_is_checked_even_when_the_start_is_wrong() -> None:
    with pytest.raises(ld.errors.InvalidBasis, match="unknown basis 'B9'"):
        ld.decompose(X, "B9", start=[1.0])


def test_settings_are_stored_with_the_fit() -> None:
    fit = ld.decompose(X, "B1 + B3(1)", solver="natural-cg", tol=1e-7)
    assert (fit.tol, fit.solver, fit.recipe) == (1e-7, "natural-cg", "B1() | B3(l=1, axis=-1)")


def test_a_start_spread_over_parameters_that_depend_on_each_other_on_the_face_is_kept() -> None:
    X = np.array([[3.0, 2.0, 6.0], [0.0, 0.0, 0.0], [4.0, 5.0, 1.0]])  # without row 1 the first two features are equal
    B = np.array([[1, 0], [2, 0], [0, 1], [0, 2]])
    fit = ld.decompose(X, B, solver="natural")
    start = np.array([fit.theta[:2].sum() / 2] * 2 + fit.theta[2:].tolist())
    again = ld.decompose(X, B, solver="natural", start=start)
    assert len(again.history) == 1
    np.testing.assert_allclose(again.eta, fit.eta, atol=1e-12)
