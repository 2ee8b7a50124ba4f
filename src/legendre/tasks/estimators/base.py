"""What the estimators share: scikit-learn's conventions, without scikit-learn, and rows read as cells of a grid."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.arguments import check_int, entries, generator_from, is_real
from legendre.core.errors import ImpossibleEvent, InvalidSamples, InvalidSetting, NotFitted, unknown_name
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.origin import Origin, rectangular
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dense import observe
from legendre.data.observation import Observation
from legendre.data.readers.encode import Column, Table, find_codes, read_table
from legendre.data.sparse import observe_rows
from legendre.fitting.networks import Mixture
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import Distribution, check_table, draw_given
from legendre.results.plots.effects import FitPlots


@dataclass(frozen=True, eq=False)
class Levels:
    """How a column is read: by distinct values in the order of the mode, or in bins.

    Bins lie between increasing `edges`, and `values` has their middles; what lies beyond the outermost edges counts as
    lying on them. Otherwise `edges` is None.
    """

    values: AnyArray
    edges: FloatArray | None = None

    def find(self, value: Any, labels: Labels, k: int) -> int:
        """Find the level of one value, which column k holds."""
        if self.edges is None:
            return labels.find_level(k, value, "given", InvalidSamples)
        if not is_real(value) or value != value:
            raise InvalidSamples(f"given: {labels.mode(k)} holds numbers, which were put in bins; got {value!r}.")
        return int(np.searchsorted(self.edges[1:-1], float(value), side="right"))

    @property
    def log_widths(self) -> FloatArray:
        """The logarithm of each bin's width; 0 for values."""
        return np.zeros(len(self.values)) if self.edges is None else np.log(np.diff(self.edges))

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Return the value of each level; within a bin it is drawn evenly."""
        if self.edges is None:
            return np.asarray(self.values[codes])
        return np.asarray(self.edges[codes] + rng.random(len(codes)) * np.diff(self.edges)[codes])


MISSING, UNKNOWN = -1, -2  # codes of a gap, and of a value that is no level


class Estimator(ABC):
    """A distribution of rows of observations.

    It keeps the constructor's arguments as they came, so that scikit-learn can copy and search over them.

    >>> import legendre as ld
    >>> ld.BoltzmannMachine(2).set_params(alpha=1.0)
    BoltzmannMachine(alpha=1.0)
    """

    alpha: float | None
    handle_unknown: str | None = "error"
    total_: float  # the number of rows
    _takes_gaps: bool = False  # whether rows may lack values
    mixture_: Mixture | None = None
    decomposition_: Decomposition
    columns_: list[Levels]
    names_: list[str] | None
    n_features_in_: int
    feature_names_in_: AnyArray

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: given.default for name, given in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments; `deep` is there for scikit-learn and changes nothing."""
        del deep
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments; a fit made before is not touched."""
        for name, value in params.items():
            if name not in self._defaults():
                raise InvalidSetting(unknown_name(f"parameter of {type(self).__name__}", name, self._defaults()))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = {name: (repr(getattr(self, name)), repr(default)) for name, default in self._defaults().items()}
        changed = [f"{name}={value}" for name, (value, default) in given.items() if value != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called; scikit-learn reads it."""
        return hasattr(self, "columns_")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags

        known = InputTags(categorical=True, string=True)
        return Tags(estimator_type="density_estimator", target_tags=TargetTags(required=False), input_tags=known)

    @abstractmethod
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the distribution of the rows."""

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return the log-likelihood of each row: of its cell, divided by the widths of bins.

        Columns that have names are found by them, in whatever order they come.
        """
        cells = self._encode(X)
        out = np.full(len(cells), -np.inf)
        unknown = (cells == UNKNOWN).sum(axis=1)
        if self._smooths:
            cells = np.where(cells == UNKNOWN, MISSING, cells)
        known = (cells > UNKNOWN).all(axis=1)
        if known.any():
            out[known] = self._log_prob(cells[known])
            for k, column in enumerate(self.columns_):
                if column.edges is not None:
                    out[known] -= np.append(column.log_widths, 0.0)[cells[known, k]]  # the last: of gaps
        return out - unknown * np.log(self.total_ + 1.0) if self._smooths else out

    @property
    def _smooths(self) -> bool:
        """Whether a value that is no level counts as a gap, with a small probability."""
        return self._takes_gaps and self.handle_unknown is None

    @property
    def _q(self) -> Mixture | Distribution:
        """The distribution that answers questions."""
        return self.decomposition_._distribution if hasattr(self, "decomposition_") else self._mixture

    @property
    def _mixture(self) -> Mixture:
        """The distribution that takes rows with gaps."""
        if self.mixture_ is None:
            raise InvalidSetting("gaps and classes are for LegendreDensity(basis=ld.graph()).")
        return self.mixture_

    def _log_prob(self, cells: IntArray) -> FloatArray:
        return (self._q if self.mixture_ is None else self.mixture_).log_prob(cells)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return the mean log-likelihood of a row."""
        del y
        return float(self.score_samples(X).mean())

    def sample(
        self,
        n_samples: int = 1,
        rng: int | np.random.Generator | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> AnyArray:
        """Draw independent rows, or rows with values of some columns given; a value within a bin is drawn evenly."""
        at = self._read_given(given)
        source, n = generator_from(rng, InvalidSetting), check_int(n_samples, "n_samples", 1)
        q = self._q
        try:
            cells = q.sample(n, source, at) if isinstance(q, Mixture) else draw_given(q, n, source, at)
        except ImpossibleEvent:
            raise InvalidSamples(f"what is given, {dict(given or {})}, has probability 0.") from None
        return self._decode(cells, source)

    def _decode(self, cells: IntArray, source: np.random.Generator) -> AnyArray:
        """Return the values of levels."""
        drawn = [column.draw(cells[:, k], source) for k, column in enumerate(self.columns_)]
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
        labels, at = self._labels(), self._read_given(given)
        listed = [k for k in range(len(labels.shape)) if k not in at] if of is None else entries(of)
        wanted = [labels.find_mode(key, "of", InvalidSamples) for key in ([of] if listed is None else listed)]
        if len({*wanted, *at}) < len(wanted) + len(given or {}) or not wanted:
            raise InvalidSamples(
                f"given={given!r} and of={of!r} must name columns once each, and none that is given must be asked for."
            )
        check_table(labels.shape, wanted)
        try:
            return np.asarray(self._q.marginal(wanted, at))
        except ImpossibleEvent:
            raise InvalidSamples(f"what is given, {dict(given or {})}, has probability 0.") from None

    def _read_given(self, given: Mapping[Any, Any] | None) -> dict[int, int]:
        """Read values of some columns as levels."""
        labels = self._labels()
        if given is not None and not isinstance(given, Mapping):
            raise InvalidSamples(f"given must be a dict such as {{{labels.mode(0)!r}: value}}, got {given!r}.")
        fixed = {labels.find_mode(key, "given", InvalidSamples): value for key, value in (given or {}).items()}
        return {k: self.columns_[k].find(value, labels, k) for k, value in fixed.items()}

    def predict_proba(self, X: ArrayLike, of: Hashable = None) -> FloatArray:
        """Return the probability of each level of one column (default: the last) given the others, n x levels.

        An array holds that column too, whose values do not matter: NaN will do. A table with names need not have it.
        """
        labels = self._labels()
        k = len(labels.shape) - 1 if of is None else labels.find_mode(of, "of", InvalidSamples)
        states = self._encode(X, skip=k)
        log_q = np.empty((len(states), len(self.columns_[k].values)))
        for level in range(len(self.columns_[k].values)):
            states[:, k] = level
            log_q[:, level] = self._log_prob(states)
        peak = log_q.max(axis=1, keepdims=True)
        impossible = np.flatnonzero(peak == -np.inf)
        if len(impossible):
            raise InvalidSamples(
                f"row {impossible[0]}: the levels of the other columns have probability 0 in this model, so that "
                f"nothing follows for {labels.mode(k)!r}. With alpha > 0 every state has a probability."
            )
        q = np.exp(log_q - peak)
        return np.asarray(q / q.sum(axis=1, keepdims=True))

    @property
    def plot(self) -> FitPlots:
        """Pictures of the fitted `decomposition_`: ``.effects()``, ``.graph()``, ``.margins()``, ..."""
        labels = self._labels()
        if not hasattr(self, "decomposition_"):
            raise InvalidSetting("classes and rows with gaps are fitted without a decomposition, so there is no plot.")
        return replace(self.decomposition_, origin=Origin(labels)).plot

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted(f"this {type(self).__name__} is not fitted yet. Call fit first.")

    def _labels(self) -> Labels:
        """Name the columns and their levels."""
        self._check_fitted()
        levels = tuple(column.values for column in self.columns_)
        return Labels(tuple(map(len, levels)), None if self.names_ is None else tuple(self.names_), levels)

    def _keep(
        self,
        fit: Decomposition | None,
        columns: list[Levels],
        names: list[str] | None,
        own: list[str] | None,
        mixture: Mixture | None = None,
    ) -> None:
        """Keep a fit, a mixture or both; `own` are the names of the table's columns, as scikit-learn keeps them."""
        for name in ("decomposition_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        if fit is not None:
            self.decomposition_ = fit
        self.columns_, self.names_, self.n_features_in_, self.mixture_ = columns, names, len(columns), mixture
        if own is not None:
            self.feature_names_in_ = np.array(own, dtype=object)

    def _encode(self, X: ArrayLike, skip: int | None = None) -> IntArray:
        """Read rows as fit did: `MISSING` for a gap, `UNKNOWN` for a value that is no level.

        Column `skip` need not be there, and is read as 0.
        """
        self._check_fitted()
        table, own = read_rows(X), getattr(self, "feature_names_in_", None)
        seen, now = self.names_ if own is None else list(map(str, own)), table.text_names
        if seen is not None and now is not None and (own is not None or set(seen) & set(now)):
            table = table.by_name(seen, "X", None if skip is None else seen[skip])
        if len(table.names) != self.n_features_in_:
            raise InvalidSamples(
                f"X has {len(table.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        names = seen or table.names
        read = table.complete_columns(names, skip, gaps=self._takes_gaps and self.mixture_ is not None)
        return self._find_codes(read, self.columns_, names, skip)

    def _find_codes(
        self, columns: Sequence[Column], levels: Sequence[Levels], names: Sequence[Hashable], skip: int | None = None
    ) -> IntArray:
        """Return the level of each row in each column; a value that is none is refused, or `UNKNOWN`."""
        codes = find_codes(columns, [own.values for own in levels])
        for k, (column, own) in enumerate(zip(columns, levels, strict=True)):
            if k == skip:
                codes[:, k] = 0
            elif own.edges is not None:
                if column.codes is not None:
                    raise InvalidSamples(
                        f"column {names[k]!r} holds {column.at(0)!r}; fit saw numbers, which were put in bins."
                    )
                codes[:, k] = np.searchsorted(own.edges[1:-1], column.values, side="right")
        codes[codes < 0] = UNKNOWN
        if self._takes_gaps:
            for k, column in enumerate(columns):
                codes[column.absent(), k] = MISSING
        if codes.min() == UNKNOWN and self.handle_unknown != "-inf" and not self._smooths:
            k = int((codes == UNKNOWN).any(axis=0).argmax())
            row = int(codes[:, k].argmin())
            text = self._say_unknown(columns[k], columns[k].at(row), len(levels[k].values))
            raise InvalidSamples(f"column {names[k]!r} holds {columns[k].at(row)!r} in row {row}{text}")
        return codes

    @abstractmethod
    def _say_unknown(self, column: Column, value: Any, n_levels: int) -> str:
        """Say what to do about a value that is none of a column's levels."""


def read_rows(X: Any) -> Table:
    """Read rows of observations, at least one row and one column."""
    table = read_table(X, "X")
    shape = table.n, len(table.names)
    if 0 in shape:
        found = f"{shape[0]} sample(s) and {shape[1]} feature(s) (shape={shape})"
        raise InvalidSamples(f"Found array with {found} while a minimum of 1 is required.")
    return table


def read_weights(weights: ArrayLike | None, n: int) -> FloatArray | None:
    """Check the weights of n rows."""
    if weights is None:
        return None
    w = rectangular(weights, "sample_weight", InvalidSamples)
    if w.dtype.kind not in "biuf" or w.shape != (n,):
        raise InvalidSamples(f"sample_weight must hold {n} numbers, one per row; got shape {w.shape}, dtype {w.dtype}.")
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad) or not w.any():
        place = f"sample_weight[{bad[0]}] = {w[bad[0]]}" if len(bad) else "every sample_weight is zero"
        raise InvalidSamples(f"{place}; weights must be finite and >= 0, and one must be positive.")
    return w.astype(np.float64)


def observe_counts(cells: IntArray, shape: tuple[int, ...], weights: FloatArray | None, alpha: float) -> Observation:
    """Count the rows that fall on each cell, with `alpha` observations more spread evenly over the grid."""
    n_cells = math.prod(shape)
    if n_cells >= limits.COMPILED_CELLS:  # empty cells are not read one by one
        return observe_rows(cells, weights, shape, alpha)
    flat = np.ravel_multi_index(tuple(cells.T), shape)
    counted: AnyArray = np.bincount(flat, weights=weights, minlength=n_cells).reshape(shape)
    return observe(counted + alpha / n_cells if alpha else counted)


def say_too_large(shape: tuple[int, ...]) -> str | None:
    """Say why a grid cannot be held in memory; ``None`` if it can."""
    if len(shape) <= limits.MOST_AXES and math.prod(shape) <= limits.LARGEST_HELD:
        return None
    levels = " x ".join(map(str, shape if len(shape) <= 8 else (*shape[:6], "...", shape[-1])))
    return (
        f"{len(shape)} columns with {levels} levels make a grid of {size_name(math.prod(shape))} cells; at most "
        f"{limits.LARGEST_HELD:,} cells and {limits.MOST_AXES} columns can be held."
    )
