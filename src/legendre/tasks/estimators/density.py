"""A density estimator for rows of categories, ordinal numbers and binned continuous ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.interactions import interactions
from legendre.basis.parse import as_basis
from legendre.core.arguments import entries, is_whole
from legendre.core.errors import ImpossibleEvent, InvalidSamples, InvalidSetting, unknown_name
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.columns import Column, Table, level_list
from legendre.fitting.decompose import decompose
from legendre.tasks.estimators.base import (
    Estimator,
    generator,
    grid_trouble,
    holds_grid,
    row_weights,
    samples_of,
    tabulated,
)
from legendre.tasks.estimators.readings import Bins, Levels


class LegendreDensity(Estimator):
    """The distribution of rows of observations, by a Legendre decomposition of the table of their counts.

    Parameters
    ----------
    basis
        An order (2: all interactions of pairs, if there are two columns), or a basis as in `decompose`, such as
        ``"B1"`` or ``ld.adaptive("bic")``; modes are columns.
    categories
        ``"auto"``: the sorted distinct values of a column are its levels; ordered categories of a data frame keep their
        list and its order. Or one entry for each column: a list of all its levels in their order, or None for auto.
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
        How each column is read: `Levels` or `Bins`.
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

    columns_: list[Levels | Bins]
    n_features_in_: int

    def __init__(
        self,
        basis: int | Basis | str | ArrayLike = 2,
        *,
        categories: Literal["auto"] | Sequence[Any] = "auto",
        n_bins: int | None = None,
        alpha: float = 0.0,
        handle_unknown: Literal["error", "-inf"] = "error",
        tol: float = 1e-10,
    ) -> None:
        self.basis, self.categories, self.n_bins = basis, categories, n_bins
        self.alpha, self.handle_unknown, self.tol = alpha, handle_unknown, tol

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the levels of the columns and the distribution of the rows."""
        del y
        samples, alpha = samples_of(X, "X"), self._pseudo_count()
        given, weights = self._settings(len(samples.names)), row_weights(sample_weight, samples.n)
        used = slice(None) if weights is None else weights > 0  # a row without weight is no row
        seen = {label: column.take(used) for label, column in _read(samples, samples.names).items()}
        weights = weights if weights is None else weights[used]
        columns = [
            _learn(column, weights, self.n_bins, levels, label)
            for (label, column), levels in zip(seen.items(), given, strict=True)
        ]
        shape = tuple(len(column.log_widths) for column in columns)
        if not holds_grid(shape):
            way_out = "Set n_bins to bin continuous columns, merge rare levels, or leave columns out."
            raise InvalidSamples(f"{grid_trouble(shape)} {way_out}")
        cells = np.stack([column.codes(values) for column, values in zip(columns, seen.values(), strict=True)], axis=1)
        table = tabulated(cells, shape, weights, alpha)
        basis = interactions(min(int(self.basis), len(shape))) if is_whole(self.basis) else as_basis(self.basis)
        self.decomposition_ = decompose(table, basis, tol=self.tol)
        self.columns_, self.n_features_in_ = columns, len(columns)
        self._keep_names(samples.text_names)
        return self

    def _labels(self) -> Labels:
        names = getattr(self, "feature_names_in_", None)
        levels = tuple(column.names for column in self.columns_)
        shape = tuple(map(len, levels))
        return Labels(shape, None if names is None else tuple(map(str, names)), levels)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return the log-likelihood of each row: of its cell, divided by the widths of the bins.

        Columns that have names are found by them, in whatever order they come.
        """
        self._check_fitted()
        samples = self._as_fitted(samples_of(X, "X"), "X")
        self._check_columns(samples)
        seen = _read(samples, getattr(self, "feature_names_in_", samples.names))
        cells = np.stack([how.codes(column) for how, column in zip(self.columns_, seen.values(), strict=True)], axis=1)
        known = (cells >= 0).all(axis=1)
        if self.handle_unknown == "error" and not known.all():
            i, k = (int(place) for place in np.argwhere(cells < 0)[0])
            label, found = list(seen.items())[k]
            raise InvalidSamples(
                f"{label} holds {found.at(i)!r} in row {i}, which was not seen in fit. List all levels in categories "
                "(and set alpha > 0 to give them a probability), or set handle_unknown='-inf'."
            )
        out = np.full(samples.n, -np.inf)
        if known.any():
            out[known] = self.decomposition_.log_prob(cells[known])
            for k, column in enumerate(self.columns_):
                out[known] -= column.log_widths[cells[known, k]]
        return out

    def sample(self, n_samples: int = 1, random_state: Any = None) -> AnyArray:
        """Draw rows; a value within a bin is drawn evenly."""
        rng = generator(random_state)
        cells = self._draw(n_samples, rng)
        drawn = [column.draw(cells[:, k], rng) for k, column in enumerate(self.columns_)]
        kinds = {values.dtype.kind for values in drawn}
        alike = kinds <= set("biuf") or len(kinds) == 1
        return np.stack(drawn if alike else [values.astype(object) for values in drawn], axis=1)

    def conditional(
        self, given: Mapping[Any, Any] | None = None, of: Hashable | Sequence[Hashable] | None = None
    ) -> FloatArray:
        """Return the joint distribution of the levels of some columns given values of others; the rest is summed out.

        Parameters
        ----------
        given
            Values of columns, by name or number: ``{"class": "crew"}``; a number lies in its bin. None: a marginal.
        of
            One column or several: the modes of the result, in this order. By default all that are not given.

        Examples
        --------
        >>> import legendre as ld
        >>> rows = {"class": ["1st", "1st", "crew", "crew", "crew"], "survived": ["yes", "no", "no", "no", "yes"]}
        >>> ld.LegendreDensity(2).fit(rows).conditional({"class": "crew"}, of="survived").round(4).tolist()
        [0.6667, 0.3333]
        """
        self._check_fitted()
        labels = self._labels()
        if given is not None and not isinstance(given, Mapping):
            raise InvalidSamples(f"given must be a dict such as {{{labels.mode(0)!r}: value}}, got {given!r}.")
        fixed = {labels.find_mode(key, "given", InvalidSamples): value for key, value in (given or {}).items()}
        listed = [of] if of is None or isinstance(of, (str, int)) else entries(of) or []
        wanted = [k for k in range(len(labels.shape)) if k not in fixed]
        if of is not None:
            wanted = [labels.find_mode(key, "of", InvalidSamples) for key in listed]
        if len({*wanted, *fixed}) < len(wanted) + len(given or {}) or not wanted:
            raise InvalidSamples(f"of={of!r} must name columns once each, and none that is given.")
        at = {k: self.columns_[k].place(value, labels, k) for k, value in fixed.items()}
        try:
            return np.asarray(self.decomposition_.without_labels().marginal(wanted, given=at or None))
        except ImpossibleEvent:
            raise InvalidSamples(f"what is given, {dict(given or {})}, has probability 0 in this density.") from None

    def _settings(self, n_columns: int) -> list[Any]:
        """Check all but alpha; return what is given of each column."""
        if not isinstance(self.handle_unknown, str) or self.handle_unknown not in ("error", "-inf"):
            raise InvalidSetting(unknown_name("handle_unknown", str(self.handle_unknown), ["error", "-inf"]))
        if self.n_bins is not None and not is_whole(self.n_bins, 1):
            raise InvalidSetting(f"n_bins must be None or an integer >= 1, got {self.n_bins!r}.")
        if isinstance(self.categories, str) and self.categories == "auto":
            return [None] * n_columns
        given = entries(self.categories)
        if given is None:
            raise InvalidSetting(f"categories must be 'auto' or a list for each column, got {self.categories!r}.")
        if len(given) != n_columns:
            raise InvalidSetting(f"categories has {len(given)} entries, X has {n_columns} columns.")
        return given

    def _check_columns(self, samples: Table) -> None:
        if len(samples.names) != self.n_features_in_:
            raise InvalidSamples(
                f"X has {len(samples.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _read(samples: Table, names: Iterable[Hashable]) -> dict[str, Column]:
    """Read all columns; missing and infinite values are refused."""
    columns = {f"column {name!r}": samples.column(key) for name, key in zip(names, samples.names, strict=True)}
    for label, column in columns.items():
        if (row := column.missing(infinite=True)) is not None:
            raise InvalidSamples(
                f"Input X contains NaN or infinity: {label} is {column.at(row)} in row {row}. Leave such rows out, or "
                "make missing a level of its own."
            )
    return columns


def _learn(column: Column, weights: FloatArray | None, n_bins: int | None, given: Any, name: str) -> Levels | Bins:
    """Learn levels that are given, bins if the column holds fractions and `n_bins` is set, else the column's levels."""
    values = column.values
    if given is not None:
        levels = level_list(given, f"categories of {name} must be")
        column.codes_in(levels, name, "categories does not list")
        return Levels(levels)
    if n_bins is None or column.codes is not None or values.dtype.kind != "f" or (values == np.rint(values)).all():
        return Levels(column.levels(name))
    cuts, each = np.linspace(0, 1, n_bins + 1), np.ones(len(values)) if weights is None else weights
    edges = np.unique(np.quantile(values, cuts, method="inverted_cdf", weights=each))  # a row of weight 2 is two rows
    if len(edges) < 2:
        raise InvalidSamples(
            f"{name} holds one value only, {values[0]:g} (n_samples={len(values)}): bins need two different ones. "
            "Leave the column out."
        )
    return Bins(edges)
