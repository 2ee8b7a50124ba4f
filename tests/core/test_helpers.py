"""The small helpers of every package, one example each."""

from __future__ import annotations

import numpy as np
import pytest

from legendre.core.arguments import entries, expect, is_real, is_whole
from legendre.core.cells import cell_name, find, index_type, unique_cells
from legendre.core.errors import InvalidSetting, LegendreError, unknown_name
from legendre.core.origin import rectangular
from legendre.core.sums.quotient import Quotient, n_cells
from legendre.core.sums.zeta import decode, zeta, zeta_adjoint
from legendre.core.text import NamedValues, aligned, shape_name


def test_whole_and_real_numbers() -> None:
    assert [is_whole(value, 1) for value in (1, np.int8(3), 0, True, 2.0)] == [True, True, False, False, False]
    assert all(is_real(value) for value in (1, np.float32(0.5), float("inf")))
    assert not any(is_real(value) for value in (True, 1j, "1", 10**400))


def test_entries_of_lists_only() -> None:
    assert [entries(value) for value in ((2, 3), 5, "ab", {0: 1})] == [[2, 3], None, None, None]


def test_a_value_of_another_kind() -> None:
    with pytest.raises(InvalidSetting, match=r"^names are text, got 5\.$"):
        expect(5, str, "names are text, got 5.")


def test_rows_of_different_lengths() -> None:
    with pytest.raises(LegendreError, match=r"^X is not a rectangular array: its rows differ in length\.$"):
        rectangular([[1, 2], [3]], "X", LegendreError)


def test_lists_of_cells() -> None:
    assert cell_name(np.array([0, 3])) == "[0, 3]"
    assert unique_cells(np.array([[1, 0], [0, 2], [1, 0]])).tolist() == [[1, 0], [0, 2]]
    assert find(np.array([[2, 0], [1, 1]]), np.array([[0, 3], [2, 0]])).tolist() == [1, -1]
    kinds = [str(index_type((2, size))) for size in (256, 257, 2**32, 2**32 + 1)]
    assert kinds == ["uint8", "uint16", "uint32", "int64"]


def test_an_unknown_name_and_what_was_probably_meant() -> None:
    text = "unknown solver 'naturel'; did you mean 'natural'? Valid: gradient, natural."
    assert unknown_name("solver", "naturel", ["gradient", "natural"]) == text


def test_cells_are_counted_exactly() -> None:
    quotient = Quotient.of((3**30, 3**30), np.array([[1, 0]]))
    assert n_cells(quotient, np.array([[False], [True]])) == 3**60 - 3**30


def test_running_sums_of_two_by_two() -> None:
    assert zeta(np.array([[0.0, 1.0], [2.0, 3.0]])).tolist() == [[0.0, 1.0], [2.0, 6.0]]
    assert zeta_adjoint(np.array([[0.1, 0.2], [0.3, 0.4]])).round(12).tolist() == [[1.0, 0.6], [0.7, 0.4]]
    psi, log_q, eta = decode(np.array([[0.0, 0.0], [np.log(3.0), 0.0]]), None)
    assert eta.round(12).tolist() == [[1.0, 0.5], [0.75, 0.375]]
    assert np.exp(psi) == pytest.approx(8.0, rel=1e-12)
    np.testing.assert_allclose(np.exp(log_q), [[0.125, 0.125], [0.375, 0.375]], rtol=1e-12)


def test_tables_in_plain_text() -> None:
    table = NamedValues("Fit", [("KL", "0.1"), ("status", "CONVERGED")], fit_rule=True).text()
    assert table == "Fit\n-----------------\nKL      0.1\nstatus  CONVERGED"
    assert aligned([["basis", "KL"], ["B1", "0.25"], ["none"]], "<>") == ["basis    KL", "B1     0.25", "none"]
    assert (shape_name((2, 3)), shape_name((2,) * 100)) == ("2x3", "2x2x...x2 (order 100)")
