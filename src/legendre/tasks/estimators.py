"""Estimators of the distribution of rows of observations, with scikit-learn's conventions but without scikit-learn.

`LegendreDensity` is for categories, ordinal numbers and binned continuous ones; `BoltzmannMachine` has interactions of
any order (the paper's Section 2.4.2). Both turn each value into a code, the number of its level in its column, and fit
the table of counts of these codes. `Estimator` has what they share: reading rows, scores, samples and conditionals.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, Cells
from legendre.basis.graph import Graph
from legendre.basis.interactions import blocks, interactions, list_subsets, look_up_modes, mode_sets
from legendre.basis.parse import as_basis
from legendre.core.arguments import (
    Rng,
    check_choice,
    check_int,
    check_name,
    check_number,
    entries,
    generator_from,
    is_real,
    is_whole,
)
from legendre.core.cells import first_cell
from legendre.core.errors import InvalidBasis, InvalidQuery, InvalidSamples, InvalidSetting, LegendreError, NotFitted
from legendre.core.labels import Event, Labels, read_levels
from legendre.core.origin import Origin, read_array
from legendre.core.types import AnyArray, FloatArray, IntArray, Modes, frozen
from legendre.data.observation import Observation, beyond_memory
from legendre.data.readers.encode import Column, Table, levels_by_column, read_table
from legendre.data.readers.rows import from_rows, has_parts
from legendre.data.sparse import observe_rows
from legendre.data.sparse_tensor import SparseTensor, check_values
from legendre.fitting.columns import CodedRows, Mixture, Network, find_graph, fit_tables, grow_graph, learn_classes
from legendre.fitting.fit import Settings, decompose, fit_on, warn_if_not_converged
from legendre.results.classes import ClassEffects
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import marginal, read_event
from legendre.solvers.structure.faces import theta_at_limit

if TYPE_CHECKING:
    from legendre.results.plots import FitPlots


@frozen
class Levels:
    """The levels of a column: distinct values in the order of the mode, or bins of numbers.

    n bins lie between the n + 1 increasing `edges`, and `values` has their middles. A number beyond the outermost edges
    belongs to the outermost bin. Without bins `edges` is None.
    """

    values: AnyArray
    edges: FloatArray | None = None

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Return a value for each code; within a bin it is drawn uniformly."""
        if self.edges is None:
            return self.values[codes]
        return self.edges[codes] + rng.random(len(codes)) * np.diff(self.edges)[codes]


@frozen
class ColumnLabels(Labels):
    """The names and levels of columns, some of which hold numbers that were put in bins.

    Questions about an estimator name levels by values, as those about a `Decomposition` do; a number names its bin.
    """

    columns: Sequence[Levels] = ()

    def find_level(self, k: int, value: Any, door: str = "", error: type[LegendreError] = InvalidQuery) -> int:
        """Return the number of the level, or of the bin, that a value of column k belongs to."""
        if (edges := self.columns[k].edges) is None:
            return super().find_level(k, value, door, error)
        if not is_real(value) or value != value:
            raise error(f"{door}: {self.mode(k)} holds numbers, which were put in bins; got {value!r}.")
        return int(np.searchsorted(edges[1:-1], float(value), side="right"))


Rows = ArrayLike | Mapping[str, Any]  # an array, a data frame, or columns by name
MISSING, UNKNOWN = -1, -2  # codes of a missing value, and of a value that is not among the levels


class Estimator(ABC):
    """The base of the estimators: reads rows, and answers questions about the distribution that a subclass fits.

    A subclass is a dataclass whose fields are the constructor's arguments. They are kept unchanged, so that
    scikit-learn can copy the estimator and search over them; what `fit` learns is in attributes whose names end with
    "_". A subclass defines `_learn_levels`, and `_learn`, which sets `decomposition_` or `mixture_`.

    >>> import legendre as ld
    >>> ld.BoltzmannMachine(2).set_params(alpha=1.0)
    BoltzmannMachine(alpha=1.0)
    """

    handle_unknown: str | None = "error"
    _takes_gaps: bool = False  # whether rows may have missing values
    _advice: str  # the end of the error about a value that is not a level: what to do
    mixture_: Mixture | None = None  # set if rows may have missing values, or if there are classes
    decomposition_: Decomposition  # not set if there are classes, or if rows that were fitted have missing values
    columns_: list[Levels]  # set by `fit`: its presence shows that the estimator is fitted

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments; `deep` is there for scikit-learn and changes nothing."""
        del deep
        return {name: value for name, value in vars(self).items() if name.strip("_") == name}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments; a fit made before is not touched."""
        for name, value in params.items():
            check_name(f"parameter of {type(self).__name__}", name, self.get_params())
            setattr(self, name, value)
        return self

    @classmethod
    def _restore(cls, **attributes: Any) -> Self:
        """Make an estimator of the attributes that a file holds."""
        made = cls()
        vars(made).update(attributes)
        return made

    def __repr__(self) -> str:
        usual = type(self)()
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(getattr(usual, k))]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called; scikit-learn reads it."""
        return hasattr(self, "columns_")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags

        known = InputTags(categorical=True, string=True)
        return Tags(estimator_type="density_estimator", target_tags=TargetTags(required=False), input_tags=known)

    def fit(self, X: Rows, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the distribution of n rows, each of which counts once or `sample_weight` times.

        Rows may be counted already, by `from_rows`, or come in parts, as there: a dask data frame, a polars lazy frame,
        a pyarrow dataset, batches. For a table X of counts, the rows are its positive cells: ``fit(np.argwhere(X),
        sample_weight=X[X > 0])``.
        """
        del y
        return self._fit(X, sample_weight, None)

    def _fit(self, X: Rows, sample_weight: ArrayLike | None, valid: Rows | None) -> Self:
        """Read rows, learn the levels of their columns, then the distribution; discard an earlier fit.

        Errors in the rows or settings that show before `_learn` keep the earlier fit. If `_learn` fails, the estimator
        is not fitted.
        """
        X = from_rows(X) if has_parts(X) else X
        if isinstance(X, SparseTensor):
            if sample_weight is not None:
                raise InvalidSetting("the rows of X are counted already, so there can be no sample_weight.")
            sample_weight = X.values
        table = read_rows(X)
        read = table.complete_columns(table.names, gaps=self._takes_gaps)
        weights = read_weights(sample_weight, table.n)
        if weights is not None:  # rows of weight 0 are left out, so that values which occur only there are no levels
            read, weights = [column.take(weights > 0) for column in read], weights[weights > 0]
        columns = self._learn_levels(read, weights, table.names)
        codes = self._find_codes(read, columns, table.names, strict=True)
        for name in ("decomposition_", "feature_names_in_", "mixture_"):
            self.__dict__.pop(name, None)
        self.columns_, self.n_features_in_ = columns, len(columns)
        self.total_ = float(len(codes) if weights is None else weights.sum())
        if table.text_names is not None:
            self.feature_names_in_ = np.array(table.text_names, dtype=object)
        try:
            self._learn(codes, weights, valid)
        except BaseException:
            del self.columns_  # it is not fitted
            raise
        return self

    @abstractmethod
    def _learn_levels(self, columns: list[Column], weights: FloatArray | None, names: Sequence[Any]) -> list[Levels]:
        """Check the settings, and decide the levels of each column, by which rows are then turned into codes.

        `weights` are those of the rows, and `names` name columns in errors.
        """

    @abstractmethod
    def _learn(self, codes: IntArray, weights: FloatArray | None, valid: Rows | None) -> None:
        """Fit the distribution to rows of codes, n x columns; `valid` has held-out rows, which choose settings."""

    def score_samples(self, X: Rows) -> FloatArray:
        """Return the log-likelihood of each row: that of its cell, minus the logarithms of the widths of its bins.

        Columns that have names are found by name, in any order. A value that is not a level costs the row
        ``log(N + 1)`` and then counts as missing, or makes the result ``-inf``, see `handle_unknown`.
        """
        codes = self._encode(X)
        out = self._log_prob(codes)
        for column, column_codes in zip(self.columns_, codes.T, strict=True):
            if column.edges is not None:  # a density: divide by the width of the bin; code -1 takes the 0 at the end
                out -= np.append(np.log(np.diff(column.edges)), 0.0)[np.maximum(column_codes, MISSING)]
        return out

    @property
    def _smooths(self) -> bool:
        """Whether a value that is not a level is scored as missing, times the probability 1 / (N + 1).

        It is for ``basis=ld.graph()``, which scores rows with missing values, unless the caller set `handle_unknown`.
        """
        return self._takes_gaps and self.handle_unknown is None

    @property
    def _mixture(self) -> Mixture:
        """The distribution that accepts rows with missing values; an error if `fit` made none."""
        if self.mixture_ is None:
            raise InvalidSetting("gaps and classes are for LegendreDensity(basis=ld.graph()).")
        return self.mixture_

    @property
    def _distribution(self) -> Any:
        """The distribution of codes that answers all questions: that of the decomposition, or of the mixture.

        Both have `log_prob`, `sample` and `marginal`; only a mixture accepts missing values, as negative codes.
        """
        return self.decomposition_._distribution if self.mixture_ is None else self.mixture_

    def _log_prob(self, codes: IntArray) -> FloatArray:
        """Return the log-probability of each row of codes, n x columns: it is behind scores and predictions.

        `UNKNOWN` values make it ``-inf``, or cost ``log(N + 1)`` each and then count as missing, see `_smooths`.
        """
        unknown = (codes == UNKNOWN).sum(axis=1)
        # without gaps, UNKNOWN is the only code below 0: any level will do, as the row gets -inf
        logs = self._distribution.log_prob(codes if self._takes_gaps else np.maximum(codes, 0))
        if self._smooths:
            return np.asarray(logs - unknown * np.log(self.total_ + 1.0))
        return np.where(unknown > 0, -np.inf, logs)

    def score(self, X: Rows, y: Any = None) -> float:
        """Return the mean log-likelihood of a row."""
        del y
        return float(self.score_samples(X).mean())

    def sample(
        self,
        n_samples: int = 1,
        rng: Rng = None,
        given: Event | None = None,
    ) -> AnyArray:
        """Draw independent rows, n x columns of values, possibly given the values of some columns.

        Within a bin a value is drawn uniformly.
        """
        at, q = read_event(self._labels(), given), self._distribution
        source, n = generator_from(rng), check_int(n_samples, "n_samples", 1)
        return self._decode(q.sample(n, source, at), source)

    def _decode(self, cells: IntArray, source: np.random.Generator) -> AnyArray:
        """Return the values that rows of codes stand for, n x columns; within a bin a value is drawn uniformly."""
        return _stack([column.draw(cells[:, k], source) for k, column in enumerate(self.columns_)])

    def conditional(self, given: Event | None = None, of: Hashable | Sequence[Hashable] | None = None) -> FloatArray:
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
        labels = self._labels()
        modes = None if of is None else labels.find_modes(of, "of")
        return marginal(self._distribution, labels, modes, given)[1]

    def predict_proba(self, X: Rows, of: Hashable = None) -> FloatArray:
        """Return the probability of each level of one column (default: the last) given the others, n x levels.

        An array must contain that column too, but its values are not used: they may be NaN. A table with names need not
        contain it.
        """
        from scipy.special import softmax

        labels = self._labels()
        k = labels.n_modes - 1 if of is None else labels.find_mode(of, "of", InvalidSamples)
        codes = self._encode(X, skip=k)
        log_q = np.empty((len(codes), labels.shape[k]))
        for level in range(labels.shape[k]):  # the joint probability of the other columns with each level
            codes[:, k] = level
            log_q[:, level] = self._log_prob(codes)
        if impossible := first_cell(log_q.max(axis=1) == -np.inf):
            raise InvalidSamples(
                f"row {impossible[0]}: the levels of the other columns have probability 0 in this model, so "
                f"{labels.mode(k)!r} cannot be predicted. With alpha > 0 every state has a probability."
            )
        return softmax(log_q, axis=1)

    @property
    def plot(self) -> FitPlots:
        """Pictures of the fitted `decomposition_`: ``.effects()``, ``.graph()``, ``.margins()``, ..."""
        labels = self._labels()
        if not hasattr(self, "decomposition_"):
            raise InvalidSetting("with gaps or classes there is no decomposition to plot; see class_effects().plot().")
        return replace(self.decomposition_, origin=Origin(labels)).plot

    def _labels(self) -> Labels:
        """Return the names and levels of the columns; raise `NotFitted` before `fit`.

        Every method that answers a question calls this first, directly or in `_encode`.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFitted(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        levels = tuple(column.values for column in self.columns_)
        names = tuple(self.feature_names_in_.tolist()) if hasattr(self, "feature_names_in_") else None
        return ColumnLabels(tuple(map(len, levels)), names, levels, columns=self.columns_)

    def _encode(self, X: Rows, skip: int | None = None) -> IntArray:
        """Read rows as `fit` did and return their codes, n x columns, with `MISSING` and `UNKNOWN` where these apply.

        Columns with names are put in the order of `fit`. Column `skip` is the one that `predict_proba` asks for: a
        table with names need not contain it, and its values are replaced by the first level.
        """
        seen, table = self._labels().names, read_rows(X)
        if seen is not None and table.text_names is not None:
            table = table.by_name(seen, "X", None if skip is None else seen[skip])
        if len(table.names) != self.n_features_in_:
            raise InvalidSamples(
                f"X has {len(table.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        names = seen or table.names
        if skip is not None:
            held = list(table.held)
            held[skip] = self.columns_[skip].values[:1].repeat(table.n)
            table = replace(table, held=held)
        strict = self.handle_unknown != "-inf" and not self._smooths
        return self._find_codes(table.complete_columns(names, gaps=self._takes_gaps), self.columns_, names, strict)

    def _find_codes(
        self, columns: Sequence[Column], levels: Sequence[Levels], names: Sequence[Hashable], strict: bool
    ) -> IntArray:
        """Return the code of each row in each column, n x columns: `MISSING` where there is no value.

        A value that is not a level is refused if `strict`, and otherwise `UNKNOWN`. `names` are the columns' names in
        errors.
        """
        found = []
        for name, column, known in zip(names, columns, levels, strict=True):
            if known.edges is None:
                unlisted = f"is not one of its levels. {self._advice}" if strict else ""
                place = column.codes_in(known.values, f"column {name!r}", unlisted)
            elif column.numeric:
                place = np.searchsorted(known.edges[1:-1], column.rows(), side="right")
            else:
                raise InvalidSamples(
                    f"column {name!r} holds {column.at(0)!r}; fit saw numbers, which were put in bins."
                )
            found.append(place)
        codes = np.stack(found)
        if codes.min() < 0:
            codes[codes < 0] = UNKNOWN
            codes[np.stack([column.codes for column in columns]) < 0] = MISSING
        return codes.T


def read_rows(X: Any) -> Table:
    """Read rows of observations; refuse an empty table, in the words that scikit-learn's checks expect.

    The rows of a `SparseTensor` are its entries.
    """
    if isinstance(X, SparseTensor):
        levels = X.levels or (None,) * len(X.shape)
        columns = [
            Column(np.arange(n) if values is None else values, codes, ordered=True)
            for n, values, codes in zip(X.shape, levels, X.cells.T, strict=True)
        ]
        return Table(X.names or range(len(columns)), X.nnz, columns)
    table = read_table(X, "X")
    shape = table.n, len(table.names)
    if 0 in shape:
        found = f"{shape[0]} sample(s) and {shape[1]} feature(s) (shape={shape})"
        raise InvalidSamples(f"Found array with {found} while a minimum of 1 is required.")
    return table


def read_weights(weights: ArrayLike | None, n: int) -> FloatArray | None:
    """Check `sample_weight`, a finite number >= 0 for each of n rows; ``None`` stays ``None``: each row counts once."""
    if weights is None:
        return None
    w = check_values(read_array(weights, "sample_weight", InvalidSamples), n, "sample_weight", InvalidSamples)
    if not w.any():
        raise InvalidSamples("every sample_weight is zero; one must be positive.")
    return w.astype(np.float64)


def _stack(columns: Sequence[AnyArray]) -> AnyArray:
    """Put columns of values side by side, n x columns.

    Columns of different kinds, such as numbers and strings, become objects: NumPy would turn the numbers into strings.
    """
    kinds = {values.dtype.kind for values in columns}
    alike = kinds <= set("biuf") or len(kinds) == 1
    return np.stack(columns if alike else [values.astype(object) for values in columns], axis=1)


@dataclass(eq=False, repr=False)
class LegendreDensity(Estimator):
    """The distribution of rows of observations, by a Legendre decomposition of the table of their counts.

    Parameters
    ----------
    basis
        An order (2: all interactions of pairs, if there are two columns), or a basis as in `decompose`, such as
        ``"B1"`` or ``ld.adaptive("bic")``; modes are columns.
    levels
        ``None``: the sorted distinct values of a column are its levels; ordered categories of a data frame keep their
        list and its order. Or one entry for each column, as a list or a mapping of columns: a list of all its levels in
        their order, or None.
    n_bins
        Cut columns of floats that hold fractions, or more different values than this, into this many bins of about
        equal size. Default: every value is a level. The log-likelihood is then that of a density, and values beyond
        those seen are moved to the nearest value seen.
    alpha
        Observations added to the data, spread evenly over all cells: a pseudo-count. Default: none; for ``ld.graph``
        the power of 2 that best predicts each row from all others, so that rows never seen have a probability; 1 for
        ``ld.graph(terms="sparse")``.
    classes
        With ``basis=ld.graph()``: how many classes of rows there are, each with a graph of its own, or all with the
        same, ``ld.graph(shared=True)``; ``"auto"`` doubles them as long as that improves the prediction of held-out
        rows (`valid`, else every tenth row). The classes are not observed, so the likelihood is not concave, and a
        better fit may exist; `tried_` has what was tried, and `class_effects` says what tells the classes apart.
    handle_unknown
        What to do about values that are not a level: ``"error"``, the default, or ``"-inf"`` for a log-likelihood of
        ``-inf``. With ``basis=ld.graph()`` such a value by default has probability 1 / (N + 1), where N is the number
        of fitted rows, and is otherwise treated as missing.
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
    graph_, alpha_, tried_
        With ``basis=ld.graph()``: the graph of the columns and the pseudo-count; with `classes`, the settings that were
        tried, of which the last was chosen.

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

    basis: int | Basis | str | ArrayLike = 2
    _: KW_ONLY
    levels: Sequence[Any] | Mapping[Any, Any] | None = None
    n_bins: int | None = None
    alpha: float | None = None
    classes: int | Literal["auto"] | None = None
    handle_unknown: Literal["error", "-inf"] | None = None
    tol: float = 1e-10

    _advice = "List all levels in levels (and set alpha > 0 to give them a probability), or set handle_unknown='-inf'"

    def fit(
        self,
        X: Rows,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        valid: Rows | None = None,
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
        self._takes_gaps = not is_whole(self.basis) and isinstance(as_basis(self.basis), Graph)
        return self._fit(X, sample_weight, valid)

    def _learn_levels(self, columns: list[Column], weights: FloatArray | None, names: Sequence[Any]) -> list[Levels]:
        """Check the settings, and learn the levels of each column by the function `_learn_levels`."""
        if self.handle_unknown is not None:
            check_choice(self.handle_unknown, "handle_unknown", ("error", "-inf"))
        if self.n_bins is not None:
            check_int(self.n_bins, "n_bins", 1)
        given = levels_by_column(self.levels, names)
        listed = zip(columns, names, strict=True)
        return [_learn_levels(own, weights, self.n_bins, given[name], f"column {name!r}") for own, name in listed]

    def _learn(self, codes: IntArray, weights: FloatArray | None, valid: Rows | None) -> None:
        """Fit the table of counts by `decompose`; with ``basis=ld.graph()``, which needs no table, by `_fit_graph`.

        Refuse settings that belong to ``ld.graph()``, and a table that is too large.
        """
        alpha, shape = None if self.alpha is None else check_number(self.alpha, "alpha", 0), self._labels().shape
        basis: Any = self.basis
        recipe = interactions(min(int(basis), len(shape))) if is_whole(basis) else as_basis(basis)
        if isinstance(recipe, Graph):
            self._fit_graph(recipe, codes, weights, valid, alpha)
            return
        for name, value in (("classes", self.classes), ("valid", valid)):
            if value is not None:
                raise InvalidSetting(f"{name} is for basis=ld.graph(), which takes any number of columns.")
        if (trouble := beyond_memory(shape)) is not None:
            raise InvalidSamples(
                f"the table {trouble}. Set n_bins to bin continuous columns, merge rare levels, or leave "
                "columns out; basis=ld.graph() takes any number of columns."
            )
        self.decomposition_ = decompose(observe_rows(codes, weights, shape, alpha or 0.0), recipe, tol=self.tol)

    def _fit_graph(
        self, recipe: Graph, codes: IntArray, weights: FloatArray | None, other: Rows | None, alpha: float | None
    ) -> None:
        """Find the graph of the columns and fit the tables on it; with `classes`, classes of rows with a graph each.

        `other` are held-out rows, on which the pseudo-count or the number of classes is chosen. The tables, as a
        `Mixture` of one class, give scores and samples, because they accept missing values. If the fitted rows have
        none, the same distribution is also fitted as a `Decomposition`, which has a certificate and pictures.
        """
        labels, gaps = self._labels(), codes.min() < 0  # gaps: some value is missing
        rows = CodedRows.of(codes, weights, labels.shape)
        valid = None if other is None else CodedRows.of(self._encode(other), None, labels.shape)
        if recipe.sparse and (gaps or self.classes is not None):
            raise InvalidSetting("sparse terms are for rows without gaps or classes: leave terms='sparse' out.")
        if self.classes is not None:
            if not isinstance(self.classes, str) or self.classes != "auto":
                check_int(self.classes, "classes, if not None or 'auto',", 1)
            self.tried_ = learn_classes(rows, valid, recipe, self.classes)
            self.mixture_ = self.tried_[-1].mixture
            return
        columns = rows.merge()
        found = grow_graph(columns, recipe, labels)
        counted = Network.count(found, columns)
        alpha = 1.0 if recipe.sparse and alpha is None else alpha

        def loss(size: float) -> float:
            """Return minus the log-likelihood of held-out rows, or of each row given the others, if alpha is `size`."""
            if valid is None:
                return counted.left_out_loss(size)
            return -float(counted.with_pseudo_counts(size).log_prob(valid).sum())

        # the best of the powers of 2 from 1/64 to 4096 observations
        alpha = min((2.0**k for k in range(-6, 13)), key=loss) if alpha is None else alpha
        self.alpha_, self.graph_ = alpha, found
        if gaps:
            counts, _ = fit_tables(
                Network.count(found, columns.take(slice(0))), columns, lambda n: n.with_pseudo_counts(alpha), self.tol
            )
            network = counts.with_pseudo_counts(alpha)
        else:
            data = observe_rows(codes, weights, labels.shape, alpha)
            fit = fit_on(data, Cells(found.basis(labels.shape)), Settings.read(tol=self.tol))
            self.decomposition_ = replace(warn_if_not_converged(fit), recipe=repr(recipe), graph=found)
            network = counted.with_pseudo_counts(alpha)
            if recipe.sparse and fit.n_params:  # where cells vanish, exp(-1000) is 0
                network = Network.of_terms(found, fit.theta + 1e3 * fit.recession)
        self.mixture_ = Mixture(np.zeros(1), [network])

    def impute(self, X: Rows, *, draw: bool = False, rng: Rng = None) -> AnyArray:
        """Fill in the missing values of rows, given the others, if values are missing at random.

        Numbers are filled in by their conditional mean, other values by the most probable one; with `draw`, all missing
        values of a row are filled in by one draw from their joint distribution. The result is n x columns of values;
        a number that was put in a bin is returned as the middle of its bin, or with `draw` as a number of this bin.
        """
        cells, mixture = self._encode(X), self._mixture
        source, rows = generator_from(rng), CodedRows.of(cells, None, mixture.shape)
        if draw:
            return self._decode(mixture.complete(rows, source), source)
        ends, out = np.cumsum(mixture.shape)[:-1], []
        # q: the probabilities of the levels of column k in each row, n x levels
        for k, (column, q) in enumerate(zip(self.columns_, np.hsplit(mixture.predict(rows), ends), strict=True)):
            lost = cells[:, k] < 0
            numbers = column.values.dtype.kind in "iuf"
            # missing values, code -1, hold the first level until the next line replaces them
            values = np.asarray(column.values[np.maximum(cells[:, k], 0)], dtype=float if numbers else object)
            values[lost] = q[lost] @ column.values if numbers else column.values[q[lost].argmax(axis=1)]
            out.append(values)
        return _stack(out)

    def class_probabilities(self, X: Rows) -> FloatArray:
        """Return the probability of each class for each row, n x classes."""
        codes, mixture = self._encode(X), self._mixture
        return mixture.posterior(CodedRows.of(codes, None, mixture.shape))

    def class_effects(self) -> ClassEffects:
        """Return what tells the classes apart: the probability of each level in each class, by name.

        The result prints as a table; its `plot` draws a map, and its `to_frame` has all levels.
        """
        labels, mixture = self._labels(), self._mixture
        return ClassEffects(labels, np.exp(mixture.log_weights), mixture.levels)


def _learn_levels(column: Column, weights: FloatArray | None, n_bins: int | None, given: Any, label: str) -> Levels:
    """Decide the levels of a column: those that the caller has `given`, bins, or the values that it holds.

    Bins are made of floats if `n_bins` is set and they hold fractions or more different values. Bins hold about equal
    numbers of rows: their edges are quantiles, of which equal ones are merged. `label` names the column in errors.
    """
    if (absent := column.mark_absent()).all():
        raise InvalidSamples(f"{label} has no value in any row. Leave it out.")
    column, weights = column.take(~absent), None if weights is None else weights[~absent]
    values = column.rows()
    if given is not None:
        levels = read_levels(given, label)
        column.codes_in(levels, label, "levels does not list")  # raises an error for a value that is not listed
        return Levels(levels)
    whole = values.dtype.kind != "f" or (values == np.rint(values)).all()
    if n_bins is None or (whole and (values.dtype.kind != "f" or len(np.unique(values)) <= n_bins)):
        return Levels(column.levels(label))
    cuts, each = np.linspace(0, 1, n_bins + 1), np.ones(len(values)) if weights is None else weights
    edges = np.unique(np.quantile(values, cuts, method="inverted_cdf", weights=each))  # a row of weight 2 is two rows
    if len(edges) < 2:
        raise InvalidSamples(
            f"{label} holds one value only, {values[0]:g} (n_samples={len(values)}): bins need two different ones. "
            "Leave the column out."
        )
    return Levels((edges[:-1] + edges[1:]) / 2, edges)


@dataclass(eq=False, repr=False)
class BoltzmannMachine(Estimator):
    """A Boltzmann machine with any interactions, fitted exactly.

    ``p(x) = exp(sum of b_i x_i + sum of w_ij x_i x_j + ... - psi)``. The maximum of the likelihood is found exactly, on
    the grid of all states for up to 24 binary variables. With more variables (100, say), the edges must form small
    cliques, as chains, trees and narrow grids do.

    Parameters
    ----------
    edges
        An order (2: all pairs; 1: biases alone), or sets of columns such as ``[(0, 1), (1, 2), (0, 1, 2)]``, by
        number or by name; or ``ld.graph()``, which finds them. Every column has a bias.
    n_levels
        How many levels the columns have, one number for all or one each. Default: up to the largest number in the
        column, at least 2. A column with L levels 0, ..., L-1 has L-1 biases, and the k-th counts once ``x_i >= k``; so
        for weights, ``w[a-1, b-1]`` counts once ``x_i >= a`` and ``x_j >= b``.
    alpha
        Observations added to the data, spread evenly over all states: a pseudo-count. Default none.
    handle_unknown
        Whether a value that is not a level is an ``"error"``, or has a log-likelihood of ``"-inf"``.
    tol
        As in `decompose`.

    Attributes
    ----------
    biases_, weights_
        By column, and by tuple of columns: a float, or an array where a column has more than two levels. Where no
        finite weight attains the maximum it is ``-inf`` or ``inf``; ``alpha > 0`` keeps all of them finite.
    psi_
        The logarithm of the partition function Z.
    decomposition_
        The `Decomposition`, with its certificate.
    n_levels_, columns_, n_features_in_, feature_names_in_
        The columns of the data: their numbers of levels, how each is read (its `values`), and their names, if any, by
        which columns of other tables are found.

    See Also
    --------
    LegendreDensity : The distribution of rows of categories.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import legendre as ld
    >>> rows = {"rain": [0, 0, 0, 1, 1, 1, 1], "wet": [0, 0, 1, 0, 1, 1, 1]}
    >>> machine = ld.BoltzmannMachine(2).fit(rows)
    >>> {key: round(weight, 6) for key, weight in machine.weights_.items()}
    {('rain', 'wet'): 1.791759}
    >>> machine.conditional({"wet": 1}).round(6).tolist()
    [0.25, 0.75]
    """

    edges: int | Iterable[Iterable[str | int]] | Basis = 2
    _: KW_ONLY
    n_levels: int | Sequence[int] | None = None
    alpha: float = 0.0
    handle_unknown: Literal["error", "-inf"] = "error"
    tol: float = 1e-10

    _advice = (
        "Numbers are levels counted from 0, n_levels of them: pass (X + 1) // 2 for -1 and +1, and bin continuous "
        "columns first"
    )

    def _learn_levels(self, columns: list[Column], weights: FloatArray | None, names: Sequence[Any]) -> list[Levels]:
        """Return the levels of each column: at least two, since a parameter belongs to each level but the first.

        Those of a column of numbers are 0, ..., n - 1, with n from `n_levels`, or by default up to its largest number.
        Those of strings and categories are their values, of which there must be `n_levels`, if it is given.
        """
        check_choice(self.handle_unknown, "handle_unknown", ("error", "-inf"))
        n_columns, given = len(columns), 2 if self.n_levels is None else self.n_levels  # 2 until the numbers are seen
        sizes: Any = [given] * n_columns if is_whole(given) else entries(given)
        if sizes is None or len(sizes) != n_columns or not all(is_whole(size, 2) for size in set(sizes)):
            raise InvalidSetting(
                f"n_levels must be an integer >= 2 for all columns, or {n_columns} of them; got {given!r}."
            )
        out = []
        for column, name, size in zip(columns, names, sizes, strict=True):
            if self.n_levels is None and column.numeric:
                size = max(2, int((column.values if weights is None else column.rows()).max()) + 1)
                if (trouble := beyond_memory((size,))) is not None:
                    raise InvalidSamples(f"column {name!r} {trouble}. {self._advice}.")
            levels = np.arange(size) if column.numeric else column.levels(f"column {name!r}")
            n = len(levels)
            if n < 2 or (self.n_levels is not None and n != size):
                raise InvalidSamples(
                    f"column {name!r} has {n} level{'s' * (n > 1)}, {', '.join(map(repr, levels.tolist()[:5]))}, where "
                    f"{'at least 2' if self.n_levels is None else size} are expected. Leave "
                    f"{'it' if n < 2 else 'n_levels'} out."
                )
            out.append(Levels(levels))
        return out

    def _read_edges(self, data: Observation, labels: Labels) -> list[Modes]:
        """Read the argument `edges` as different sets of two or more columns, by number, in the order given.

        Single columns are left out, because every column has a bias. Of a set that is given twice, the last spelling
        counts, in the place of the first. `data` are the rows, from which ``ld.graph()``
        finds the sets.
        """
        n = labels.n_modes
        if isinstance(self.edges, Iterator):  # a second fit would find it empty
            raise InvalidBasis(f"edges={self.edges!r}: pass a list, such as [(0, 1), (1, 2)].")
        if isinstance(self.edges, Graph):
            found = find_graph(self.edges, data).interactions(labels.shape)
        elif is_whole(self.edges):
            order = check_int(self.edges, "edges: the order", 1, InvalidBasis)
            found = sorted(list_subsets([range(n)], labels.shape, order), key=len)
        else:
            found = look_up_modes("edges", mode_sets("edges", self.edges), n, labels)
        return list({frozenset(group): group for group in found if len(group) > 1}.values())

    def _learn(self, codes: IntArray, weights: FloatArray | None, valid: Rows | None) -> None:
        """Fit the machine, and split theta into biases and weights.

        The basis has a block of cells for each column, then one for each edge in the order given: all combinations of
        levels above 0 in its columns, in C order. Theta has the same blocks.
        """
        del valid
        labels = self._labels()
        shape, keys = labels.shape, labels.names or range(labels.n_modes)
        data = observe_rows(codes, weights, shape, check_number(self.alpha, "alpha", 0))
        groups = [*((k,) for k in range(len(shape))), *self._read_edges(data, labels)]
        fit = fit_on(data, Cells(blocks(shape, groups)), Settings.read(tol=self.tol))
        self.decomposition_ = warn_if_not_converged(fit)
        self.n_levels_, self.psi_ = shape, fit.psi
        sizes = [[shape[k] - 1 for k in group] for group in groups]
        parts = np.split(theta_at_limit(fit.theta, fit.recession), np.cumsum([math.prod(own) for own in sizes])[:-1])
        # with two levels in each column of the group it is one number
        found = [part.item() if part.size == 1 else part.reshape(own) for part, own in zip(parts, sizes, strict=True)]
        self.biases_ = dict(zip(keys, found, strict=False))  # the groups of one column come first
        edges = [tuple(keys[k] for k in group) for group in groups[len(shape) :]]
        self.weights_ = dict(zip(edges, found[len(shape) :], strict=True))

    def log_likelihood(self, X: Rows) -> float:
        """Return the log-likelihood of all rows together, in nats."""
        return float(self.score_samples(X).sum())
