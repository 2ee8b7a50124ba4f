"""A density estimator for rows of categories, ordinal numbers and binned continuous ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.interactions import interactions
from legendre.basis.parse import as_basis
from legendre.core.arguments import check_choice, check_int, check_number, entries, is_whole
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.types import FloatArray
from legendre.data.readers.encode import Column, level_list
from legendre.fitting.fit import decompose
from legendre.tasks.estimators.base import (
    Estimator,
    Levels,
    observe_counts,
    read_rows,
    read_weights,
    say_too_large,
)


class LegendreDensity(Estimator):
    """The distribution of rows of observations, by a Legendre decomposition of the table of their counts.

    Parameters
    ----------
    basis
        An order (2: all interactions of pairs, if there are two columns), or a basis as in `decompose`, such as
        ``"B1"`` or ``ld.adaptive("bic")``; modes are columns.
    levels
        ``None``: the sorted distinct values of a column are its levels; ordered categories of a data frame keep their
        list and its order. Or one entry for each column: a list of all its levels in their order, or None.
    n_bins
        Cut columns that hold fractions into this many bins of about equal size. Default: every value is a level.
        The log-likelihood is then a density, and values beyond those seen count as the outermost ones seen.
    alpha
        Observations added to the data, spread evenly over all cells: a pseudo-count. Default none.
    handle_unknown
        What to do about values that are not a level: ``"error"``, or ``"-inf"`` for a log-likelihood of ``-inf``.
    tol
        As in `decompose`.

    Attributes
    ----------
    decomposition_
        The `Decomposition`, with its certificate.
    columns_
        How each column is read: its `values`, which are the levels, and the `edges` of bins or None.
    n_features_in_, feature_names_in_
        The number of columns; their names where the data have names.

    See Also
    --------
    BoltzmannMachine : Rows of variables, with biases and weights.
    from_rows : Count the rows of a table of events.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import legendre as ld
    >>> rows = [["red", 1], ["red", 2], ["blue", 1], ["red", 2], ["blue", 1]]
    >>> density = ld.LegendreDensity(basis=2).fit(np.array(rows, dtype=object))
    >>> round(float(np.exp(density.score_samples(np.array([["red", 2]], dtype=object)))[0]), 6)
    0.4
    """

    def __init__(
        self,
        basis: int | Basis | str | ArrayLike = 2,
        *,
        levels: Sequence[Any] | None = None,
        n_bins: int | None = None,
        alpha: float = 0.0,
        handle_unknown: Literal["error", "-inf"] = "error",
        tol: float = 1e-10,
    ) -> None:
        self.basis, self.levels, self.n_bins = basis, levels, n_bins
        self.alpha, self.handle_unknown, self.tol = alpha, handle_unknown, tol

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the levels of the columns and the distribution of the rows."""
        del y
        table, alpha = read_rows(X), check_number(self.alpha, "alpha", 0)
        given, weights = self._given_levels(len(table.names)), read_weights(sample_weight, table.n)
        used = slice(None) if weights is None else weights > 0  # a row without weight is no row
        weights = weights if weights is None else weights[used]
        read = [column.take(used) for column in table.complete_columns(table.names)]
        columns = [
            _learn_levels(column, weights, self.n_bins, own, f"column {name!r}")
            for column, name, own in zip(read, table.names, given, strict=True)
        ]
        shape = tuple(len(levels.values) for levels in columns)
        if (trouble := say_too_large(shape)) is not None:
            raise InvalidSamples(
                f"{trouble} Set n_bins to bin continuous columns, merge rare levels, or leave columns out."
            )
        counts = observe_counts(self._find_codes(read, columns, table.names), shape, weights, alpha)
        basis = interactions(min(int(self.basis), len(shape))) if is_whole(self.basis) else as_basis(self.basis)
        self._keep(decompose(counts, basis, tol=self.tol), columns, table.text_names, table.text_names)
        return self

    def _given_levels(self, n_columns: int) -> list[Any]:
        """Check the settings; return the levels that are given of each column."""
        check_choice(self.handle_unknown, "handle_unknown", ("error", "-inf"))
        if self.n_bins is not None:
            check_int(self.n_bins, "n_bins", 1)
        given = [None] * n_columns if self.levels is None else entries(self.levels)
        if given is None or len(given) != n_columns:
            raise InvalidSetting(f"levels must be None or a list for each of {n_columns} columns, got {self.levels!r}.")
        return given

    def _say_unknown(self, column: Column, value: Any, n_levels: int) -> str:
        del column, value, n_levels
        return (
            ", which was not seen in fit. List all levels in levels (and set alpha > 0 to give them a probability), or "
            "set handle_unknown='-inf'."
        )


def _learn_levels(column: Column, weights: FloatArray | None, n_bins: int | None, given: Any, label: str) -> Levels:
    """Learn levels that are given, bins if the column holds fractions and `n_bins` is set, else the column's levels."""
    values = column.values
    if given is not None:
        levels = level_list(given, f"levels of {label} must be")
        column.codes_in(levels, label, "levels does not list")
        return Levels(levels)
    if n_bins is None or column.codes is not None or values.dtype.kind != "f" or (values == np.rint(values)).all():
        return Levels(column.levels(label))
    cuts, each = np.linspace(0, 1, n_bins + 1), np.ones(len(values)) if weights is None else weights
    edges = np.unique(np.quantile(values, cuts, method="inverted_cdf", weights=each))  # a row of weight 2 is two rows
    if len(edges) < 2:
        raise InvalidSamples(
            f"{label} holds one value only, {values[0]:g} (n_samples={len(values)}): bins need two different ones. "
            "Leave the column out."
        )
    return Levels((edges[:-1] + edges[1:]) / 2, edges)
