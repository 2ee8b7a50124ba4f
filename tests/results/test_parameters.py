"""The table of parameters: each number against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legendre as ld
from legendre.basis.basis import cells
from legendre.results.inference.estimates import INFINITE, OPEN


def test_columns_are_those_of_the_fit_and_of_its_inference(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.poisson(9.0, (3, 4, 3)), "interactions(2)")
    table, tests = fit.parameters(), fit.inference()
    assert len(table) == fit.n_params
    np.testing.assert_array_equal(table.cells, fit.basis)
    np.testing.assert_array_equal(table.theta, fit.theta)
    np.testing.assert_array_equal(table.factor, np.exp(fit.theta))
    np.testing.assert_array_equal(table.eta_hat, fit.eta_hat)
    np.testing.assert_allclose(table.standard_error, tests.standard_errors)
    assert set(table.notes) == {""}


def test_kl_lost_is_that_of_a_fit_without_the_parameter(rng: np.random.Generator) -> None:
    x = rng.poisson(9.0, (3, 4)) + 1
    fit = ld.decompose(x, ld.full())
    exact, near = fit.parameters(kl_lost="refit"), fit.parameters(kl_lost="estimate")
    assert (exact.exact, near.exact, fit.parameters().exact) == (True, False, True)
    for i in range(fit.n_params):
        without = ld.decompose(x, np.delete(fit.basis, i, axis=0))
        assert exact.kl_lost[i] == pytest.approx(without.kl - fit.kl, abs=1e-9)
    variances = np.diagonal(np.linalg.inv(fit.fisher()))
    np.testing.assert_allclose(near.kl_lost, fit.theta**2 / (2 * variances))
    assert np.isnan(fit.parameters(kl_lost=None).kl_lost).all()


def test_many_parameters_are_estimated(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ld.decompose(rng.poisson(9.0, (3, 4)) + 1, "B1")
    monkeypatch.setattr("legendre.results.parameters.FEW_REFITS", 3)
    assert not fit.parameters().exact
    monkeypatch.setattr("legendre.results.parameters.QUICK_COVARIANCE", 3)
    table = fit.parameters()
    assert np.isnan(table.kl_lost).all()
    assert np.isnan(table.standard_error).all()
    assert 'a matrix of 5 x 5 would have to be inverted; ask for parameters(kl_lost="estimate")' in repr(table)
    assert not np.isnan(fit.parameters(kl_lost="estimate").standard_error).any()


def test_names_say_from_which_level_on() -> None:
    x, basis = np.arange(1, 13).reshape(3, 4), cells([[1, 0], [2, 0], [1, 3], [0, 2]])
    fit = ld.decompose(x, basis)
    assert fit.parameters().names == ("mode 0 >= 1", "mode 0 = 2", "mode 0 >= 1, mode 1 = 3", "mode 1 >= 2")
    fit = ld.decompose(x, basis, names=["dest", "hour"], levels=[["BOS", "JFK", "SFO"], [5, 6, 7, 8]])
    assert fit.parameters().names == ("dest >= JFK", "dest = SFO", "dest >= JFK, hour = 8", "hour >= 7")
    frame = fit.parameters().to_frame()
    assert list(frame["dest"]) == ["JFK", "SFO", "JFK", "BOS"]
    assert list(frame["hour"]) == [5, 5, 8, 7]
    np.testing.assert_array_equal(frame["theta"], fit.theta)
    assert list(frame.columns[3:]) == ["theta", "factor", "eta", "eta_hat", "standard_error", "kl_lost", "note"]


def test_rows_are_sorted_by_size(rng: np.random.Generator) -> None:
    table = ld.decompose(rng.poisson(9.0, (4, 5)) + 1, ld.full()).parameters()
    for column in ("theta", "kl_lost", "standard_error", "eta"):
        assert (np.diff(np.abs(getattr(table.sorted_by(column), column))) <= 0).all()
    np.testing.assert_array_equal(table.sorted_by("factor").theta, table.sorted_by("theta").theta)
    assert table[[2, 0]].names == (table.names[2], table.names[0])


def test_the_text_shows_the_first_rows_and_shortens_names(rng: np.random.Generator) -> None:
    long = ["a name that goes on for a while", "another that does not end soon either"]
    fit = ld.decompose(rng.poisson(9.0, (4, 5)) + 1, ld.full(), names=long)
    lines = fit.parameters().sorted_by("kl_lost").summary(4).splitlines()
    assert lines[0] == "19 parameters"
    assert max(map(len, lines[:6])) <= 100
    assert lines[6] == "... and 15 more: sorted_by(...), to_frame(), summary(rows=...)"


def test_what_diverges_or_is_open_has_no_standard_error() -> None:
    edge = ld.decompose([[4, 0], [3, 2]], ld.full())
    table = edge.parameters(kl_lost="estimate")
    steep = np.array([note == INFINITE for note in table.notes])
    assert steep.any()
    assert np.isnan(table.standard_error[steep]).all()
    assert np.isnan(table.kl_lost[steep]).all()
    assert not np.isnan(edge.parameters().kl_lost).any(), "a fit without it can be had all the same"
    assert f"2 without s.e.: {INFINITE}." in repr(table)
    assert "-inf" in repr(table)
    np.testing.assert_array_equal(np.isinf(table.theta), steep)
    block = np.kron(np.eye(2, dtype=int), [[4, 3], [1, 2]])  # on these cells row 2 says the same as column 2
    open_ = ld.decompose(block, [[2, 0], [0, 2], [1, 0]], support="nonzero").parameters(kl_lost="estimate")
    free = np.array([note == OPEN for note in open_.notes])
    assert free.any()
    assert (open_.kl_lost[free] == 0).all(), "the others take over"


def test_of_a_fit_without_x_or_of_no_counts(rng: np.random.Generator, tmp_path: object) -> None:
    fit = ld.decompose(rng.random((3, 3)), "B1")
    table = fit.parameters()
    assert np.isnan(table.standard_error).all()
    assert "s.e." not in repr(table).splitlines()[1]
    assert "4 without s.e.: X does not hold counts." in repr(table)
    fit.save(f"{tmp_path}/fit.npz")
    loaded = ld.load(f"{tmp_path}/fit.npz")
    again = loaded.parameters()
    np.testing.assert_allclose(again.kl_lost, fit.parameters(kl_lost="estimate").kl_lost)
    assert "X is not available (this fit was loaded from a file)" in repr(again)
    with pytest.raises(ld.errors.InvalidQuery, match="this needs X, which a result loaded from a file does not hold"):
        loaded.parameters(kl_lost="refit")


def test_a_hundred_modes(rng: np.random.Generator) -> None:
    rows = (rng.random((200, 100)) < 0.4).astype(int)
    rows[:, 1] = rows[:, 0] ^ (rng.random(200) < 0.2)
    fit = ld.decompose(ld.from_rows(rows), ld.interactions([(k, k + 1) for k in range(99)]))
    table = fit.parameters().sorted_by("kl_lost")
    assert table.names[0] == "mode 0 = 1, mode 1 = 1"
    assert not np.isnan(table.standard_error).any()
    assert list(table.to_frame().columns)[:2] == ["parameter", "theta"], "no hundred columns of levels"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda fit: fit.parameters(kl_lost="yes"), "kl_lost must be 'auto', 'refit' or 'estimate', got 'yes'"),
        (lambda fit: fit.parameters().sorted_by("kl_lots"), "unknown column .* 'kl_lots'; did you mean 'kl_lost'"),
        (lambda fit: fit.parameters().summary(0), "summary: rows must be an integer >= 1, got 0"),
    ],
)
def test_bad_questions(ask: Any, words: str) -> None:
    assert repr(ld.decompose([[1, 2], [3, 4]], "empty").parameters()) == "0 parameters"
    with pytest.raises((ld.errors.InvalidQuery, ld.errors.InvalidSetting), match=words):
        ask(ld.decompose([[1, 2], [3, 4]], "B1"))
