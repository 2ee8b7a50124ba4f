"""A density estimator for rows of categories, ordinal numbers and binned continuous ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, Cells
from legendre.basis.graph import Graph
from legendre.basis.interactions import interactions
from legendre.basis.parse import as_basis
from legendre.core.arguments import check_choice, check_int, check_number, entries, generator_from, is_whole
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.readers.encode import Column, level_list
from legendre.data.sparse import observe_rows
from legendre.fitting.fit import Settings, decompose, fit_on, warn_if_not_converged
from legendre.fitting.graph_search import Columns, read_columns, search
from legendre.fitting.networks import Mixture, Network, fit_rows
from legendre.tasks.classes import learn_classes
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
        Observations added to the data, spread evenly over all cells: a pseudo-count. Default: none; for ``ld.graph``
        the power of 2 that predicts each row best from all others, so that rows never seen have a probability.
    classes
        With ``basis=ld.graph()``: how many classes of rows there are, each with a graph of its own; ``"auto"`` doubles
        them as long as held-out rows (`valid`, else every tenth row) are predicted better. Which class a row is of was
        not observed: the likelihood is not concave, and `tried_` has what was tried.
    handle_unknown
        What to do about values that are not a level: ``"error"``, the default, or ``"-inf"`` for a log-likelihood of
        ``-inf``. With ``basis=ld.graph()`` the default is to give such a value the probability 1 / (N + 1), N being the
        number of rows that were fitted, and to take it for missing otherwise.
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
        alpha: float | None = None,
        classes: int | Literal["auto"] | None = None,
        handle_unknown: Literal["error", "-inf"] | None = None,
        tol: float = 1e-10,
    ) -> None:
        self.basis, self.levels, self.n_bins, self.classes = basis, levels, n_bins, classes
        self.alpha, self.handle_unknown, self.tol = alpha, handle_unknown, tol

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        valid: ArrayLike | None = None,
    ) -> Self:
        """Learn the levels of the columns and the distribution of the rows.

        Parameters
        ----------
        X, sample_weight
            Rows, and how often each counts. With ``basis=ld.graph()`` values may be missing (NaN, None), at random:
            whether one is missing may depend on what was observed, not on the value itself.
        y
            Not used; there for scikit-learn.
        valid
            Other rows, on which the pseudo-count and the number of classes are chosen.
        """
        del y
        table, alpha = read_rows(X), None if self.alpha is None else check_number(self.alpha, "alpha", 0)
        given, weights = self._given_levels(len(table.names)), read_weights(sample_weight, table.n)
        used = slice(None) if weights is None else weights > 0  # a row without weight is no row
        weights = weights if weights is None else weights[used]
        recipe = None if is_whole(self.basis) else as_basis(self.basis)
        self._takes_gaps = isinstance(recipe, Graph)
        read = [column.take(used) for column in table.complete_columns(table.names, gaps=self._takes_gaps)]
        columns = [
            _learn_levels(column, weights, self.n_bins, own, f"column {name!r}")
            for column, name, own in zip(read, table.names, given, strict=True)
        ]
        shape = tuple(len(levels.values) for levels in columns)
        codes = self._find_codes(read, columns, table.names)
        names = table.text_names
        if isinstance(recipe, Graph):
            self._keep(None, columns, names, names)
            other = None if valid is None else self._encode(valid)
            self._fit_graph(recipe, codes, weights, other, alpha)
            return self
        for name, value in (("classes", self.classes), ("valid", valid)):
            if value is not None:
                raise InvalidSetting(f"{name} is for basis=ld.graph(), with which rows of any number of columns go.")
        if (trouble := say_too_large(shape)) is not None:
            raise InvalidSamples(
                f"{trouble} Set n_bins to bin continuous columns, merge rare levels, or leave columns out; "
                "basis=ld.graph() takes any number of columns."
            )
        basis = interactions(min(int(self.basis), len(shape))) if recipe is None else recipe  # type: ignore[arg-type]
        fit = decompose(observe_counts(codes, shape, weights, alpha or 0.0), basis, tol=self.tol)
        self._keep(fit, columns, names, names)
        return self

    def _fit_graph(
        self, recipe: Graph, codes: IntArray, weights: FloatArray | None, other: IntArray | None, alpha: float | None
    ) -> None:
        """Find the graph of rows, or classes of rows with a graph each, and their distribution."""
        shape, labels = tuple(len(column.values) for column in self.columns_), self._labels()
        gaps = codes.min() < 0
        rows = Columns.of(codes, weights, shape)
        valid = None if other is None else Columns.of(other, None, shape)
        self.total_ = rows.total
        if self.classes is not None:
            if gaps:
                raise InvalidSamples("rows with gaps and classes do not go together yet. Fill the gaps first: impute.")
            check_classes(self.classes)
            self.tried_ = learn_classes(rows, valid, recipe, self.classes)
            self.mixture_ = self.tried_[-1].mixture
            return
        columns = rows if gaps else read_columns(observe_rows(codes, weights, shape))
        found = search(columns, recipe, labels)
        if alpha is None:
            counted = Network.count(found, columns)
            whole = None if valid is None else valid.take(~valid.lacking)

            def loss(size: float) -> float:
                if whole is None or not len(whole.weights):
                    return counted.left_out_loss(size)
                return -float(counted.with_pseudo_counts(size).log_prob(whole.codes).sum())

            alpha = min((2.0**k for k in range(-6, 13)), key=loss)
        self.alpha_, self.graph_ = alpha, found
        if gaps:
            self.completed_ = fit_rows(found, columns, alpha, self.tol)
            network = self.completed_.network
        else:
            data = observe_rows(codes, weights, shape, alpha)
            fit = warn_if_not_converged(fit_on(data, Cells(found.basis(shape)), Settings.read(tol=self.tol)))
            self.decomposition_ = replace(fit, recipe=repr(recipe), graph=found)
            network = Network.count(found, columns).with_pseudo_counts(alpha)
        self.mixture_ = Mixture(np.zeros(1), [network])

    def impute(self, X: ArrayLike, *, draw: bool = False, rng: int | np.random.Generator | None = None) -> AnyArray:
        """Fill the gaps of rows by what the others say, if values are missing at random.

        Numbers are filled by their conditional mean, other values by the most probable one; with `draw`, all gaps of a
        row by one draw from their joint distribution.
        """
        cells, mixture = self._encode(X), self._mixture
        source, rows = generator_from(rng, InvalidSetting), Columns.of(cells, None, mixture.shape)
        if draw:
            return self._decode(mixture.complete(rows, source), source)
        margins, out, stop = mixture.predict(rows), [], 0
        for k, column in enumerate(self.columns_):
            start, stop = stop, stop + len(column.values)
            lost, q = cells[:, k] < 0, margins[:, start:stop]
            numbers = column.values.dtype.kind in "iuf"
            values = np.asarray(column.values[np.maximum(cells[:, k], 0)], dtype=float if numbers else object)
            values[lost] = q[lost] @ column.values if numbers else column.values[q[lost].argmax(axis=1)]
            out.append(values)
        alike = all(values.dtype == float for values in out)
        return np.stack(out if alike else [values.astype(object) for values in out], axis=1)

    def class_probabilities(self, X: ArrayLike) -> FloatArray:
        """Return the probability of each class for each row, n x classes."""
        cells = self._encode(X)
        return self._mixture.posterior(Columns.of(cells, None, self._mixture.shape))

    def _given_levels(self, n_columns: int) -> list[Any]:
        """Check the settings; return the levels that are given of each column."""
        if self.handle_unknown is not None:
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


def check_classes(classes: object) -> None:
    """Refuse what is neither a number of classes nor "auto"."""
    if classes != "auto" and not is_whole(classes, 1):
        raise InvalidSetting(f"classes must be None, 'auto' or an integer >= 1, got {classes!r}.")


def _learn_levels(column: Column, weights: FloatArray | None, n_bins: int | None, given: Any, label: str) -> Levels:
    """Learn levels that are given, bins if the column holds fractions and `n_bins` is set, else the column's levels."""
    if (absent := column.absent()).all():
        raise InvalidSamples(f"{label} has no value in any row. Leave it out.")
    column, weights = column.take(~absent), None if weights is None else weights[~absent]
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
