"""Rows that lack values, where the arithmetic or the rows leave little room."""

from __future__ import annotations

from typing import Any

import pytest

import legendre as ld

Rows = dict[str, list[Any]]


def em(rows: Any, formula: str, **settings: Any) -> ld.PartialLogLinear:
    found = ld.loglinear(rows, formula, missing="em", **settings)
    assert isinstance(found, ld.PartialLogLinear)
    return found


@pytest.mark.parametrize("scale", [1, 1000])
def test_only_the_best_probabilities_are_called_so_however_many_rows_there_are(scale: int) -> None:
    n = [2503 * scale, 2497 * scale, 2497 * scale, 2503 * scale, 7]
    rows: Rows = {"a": ["x", "x", "y", "y", "x"], "b": ["u", "v", "u", "v", None], "n": n}
    apart, saturated = em(rows, "a + b", counts="n"), em(rows, "a*b", counts="n")
    assert apart.g2 == pytest.approx(0.0144 * scale, rel=1e-3)
    assert not apart.global_maximum
    assert "a local maximum" in repr(apart)
    assert saturated.global_maximum
    assert "no probabilities have a higher likelihood" in repr(saturated)
