"""The small helpers of every package, one example each."""

from __future__ import annotations

import numpy as np

from legendre.core.arguments import is_real, is_whole
from legendre.core.cells import cell_name, find_rows, index_type, unique_cells
from legendre.core.text import NamedValues, align, shape_name


def test_whole_and_real_numbers() -> None:
    assert [is_whole(value, 1) for value in (1, np.int8(3), 0, True, 2.0)] == [True, True, False, False, False]
    assert all(is_real(value) for value in (1, np.float32(0.5), float("inf")))
    assert not any(is_real(value) for value in (True, 1j, "1", 10**400))


def test_lists_of_cells() -> None:
    assert cell_name(np.array([0, 3])) == "[0, 3]"
    assert unique_cells(np.array([[1, 0], [0, 2], [1, 0]])).tolist() == [[1, 0], [0, 2]]
    assert find_rows(np.array([[2, 0], [1, 1]]), np.array([[0, 3], [2, 0]])).tolist() == [1, -1]
    kinds = [str(index_type((2, size))) for size in (256, 257, 2**32, 2**32 + 1)]
    assert kinds == ["uint8", "uint16", "uint32", "int64"]


def test_tables_in_plain_text() -> None:
    table = NamedValues("Fit", [("KL", "0.1"), ("status", "CONVERGED")]).text()
    assert table == "Fit\n------------------------------\nKL      0.1\nstatus  CONVERGED"
    assert align([["basis", "KL"], ["B1", "0.25"], ["none"]], "<>") == ["basis    KL", "B1     0.25", "none"]
    assert (shape_name((2, 3)), shape_name((2,) * 100)) == ("2x3", "2x2x...x2 (order 100)")
