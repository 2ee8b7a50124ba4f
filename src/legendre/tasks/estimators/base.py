"""What the estimators share: scikit-learn's conventions, without scikit-learn, and rows counted on a grid."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.arguments import is_real, is_whole
from legendre.core.errors import InvalidSamples, InvalidSetting, NotFitted, unknown_name
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.origin import Origin, rectangular
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.readers.columns import Table, read_table
from legendre.data.readers.coordinates import from_coords
from legendre.data.sparse_tensor import SparseTensor
from legendre.results.decomposition import Decomposition
from legendre.results.plots.plots import FitPlots


class WithParams:
    """Keeps the constructor's arguments as they came, so that scikit-learn can copy and search over them.

    >>> import legendre as ld
    >>> ld.BoltzmannMachine(2).set_params(alpha=1.0)
    BoltzmannMachine(alpha=1.0)
    """

    _fitted = "decomposition_"  # the attribute that `fit` sets
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
        return hasattr(self, self._fitted)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted(f"this {type(self).__name__} is not fitted yet. Call fit first.")

    def _keep_names(self, names: Sequence[str] | None) -> None:
        """Keep the names of the columns, as scikit-learn does, or forget those that an earlier fit saw."""
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)


class Estimator(WithParams, ABC):
    """A distribution of rows of observations."""

    alpha: float
    decomposition_: Decomposition

    @abstractmethod
    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return the log-likelihood of each row."""

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return the mean log-likelihood of a row."""
        del y
        return float(self.score_samples(X).mean())

    def _as_fitted(self, samples: Table, name: str, optional: int | None = None) -> Table:
        """Put columns in the order of fit where both tables name them; others stand in that order already.

        The column with the number `optional` need not be there.
        """
        seen, now = self._column_names(), samples.text_names
        if seen is None or now is None or not (hasattr(self, "feature_names_in_") or set(seen) & set(now)):
            return samples
        return samples.by_name(seen, name, None if optional is None else seen[optional])

    def _column_names(self) -> list[str] | None:
        """Return the names of the columns, if fit saw some."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(column) for column in names]

    def _pseudo_count(self) -> float:
        if not ((type(self.alpha) is float or is_real(self.alpha)) and 0 <= self.alpha < np.inf):
            raise InvalidSetting(f"alpha must be a finite number >= 0, got {self.alpha!r}.")
        return float(self.alpha)

    @property
    def plot(self) -> FitPlots:
        """Pictures of the fitted `decomposition_`: ``.effects()``, ``.graph()``, ``.margins()``, ..."""
        self._check_fitted()
        return replace(self.decomposition_, origin=Origin(self._labels())).plot

    @abstractmethod
    def _labels(self) -> Labels:
        """Name the columns and their levels."""

    def _draw(self, n: int, rng: np.random.Generator) -> IntArray:
        self._check_fitted()
        if not is_whole(n, 1):
            raise InvalidSetting(f"n_samples must be an integer >= 1, got {n!r}.")
        drawn: IntArray = self.decomposition_.without_labels().sample(n, rng)
        return drawn

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type="density_estimator", target_tags=TargetTags(required=False))


def samples_of(X: Any, name: str) -> Table:
    """Read rows of observations, at least one row and one column; `name` is what errors call them."""
    samples = read_table(X, name)
    shape = samples.n, len(samples.names)
    if 0 in shape:
        found = f"{shape[0]} sample(s) and {shape[1]} feature(s) (shape={shape})"
        raise InvalidSamples(f"Found array with {found} while a minimum of 1 is required.")
    return samples


def row_weights(weights: ArrayLike | None, n: int) -> FloatArray | None:
    """Check the weights of n rows."""
    if weights is None:
        return None
    w = rectangular(weights, "sample_weight", InvalidSamples)
    if w.dtype.kind not in "biuf" or w.shape != (n,):
        raise InvalidSamples(f"sample_weight must hold {n} numbers, one per row; got shape {w.shape}, dtype {w.dtype}.")
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        raise InvalidSamples(f"sample_weight[{bad[0]}] = {w[bad[0]]}; weights must be finite and >= 0.")
    if not w.any():
        raise InvalidSamples("every sample_weight is zero: there is nothing to fit.")
    return w.astype(np.float64)


def counts(cells: IntArray, shape: tuple[int, ...], weights: FloatArray | None, alpha: float) -> AnyArray:
    """Count the rows that fall on each cell, with `alpha` observations more spread evenly over the grid."""
    n_cells = math.prod(shape)
    flat = np.ravel_multi_index(tuple(cells.T), shape)
    counted: AnyArray = np.bincount(flat, weights=weights, minlength=n_cells).reshape(shape)
    return counted if alpha == 0 else counted + alpha / n_cells


def tabulated(
    cells: IntArray, shape: tuple[int, ...], weights: FloatArray | None, alpha: float
) -> AnyArray | SparseTensor:
    """Count the rows, as a list of cells where the grid is large: its empty cells are not read one by one."""
    if alpha > 0 or math.prod(shape) < limits.COMPILED_CELLS:
        return counts(cells, shape, weights, alpha)
    return from_coords(cells, np.ones(len(cells), dtype=np.int64) if weights is None else weights, shape)


def holds_grid(shape: tuple[int, ...]) -> bool:
    """Whether a grid can be held in memory."""
    return len(shape) <= limits.MOST_AXES and math.prod(shape) <= limits.LARGEST_HELD


def grid_trouble(shape: tuple[int, ...]) -> str:
    """Return the sentence that says why a grid cannot be held in memory."""
    levels = " x ".join(map(str, shape if len(shape) <= 8 else (*shape[:6], "...", shape[-1])))
    return (
        f"{len(shape)} variables with {levels} levels make a grid of {size_name(math.prod(shape))} cells; at most "
        f"{limits.LARGEST_HELD:,} cells and {limits.MOST_AXES} variables can be held."
    )


def generator(random_state: Any) -> np.random.Generator:
    """Read what scikit-learn calls a random_state: nothing, a seed, a Generator, or its older RandomState."""
    if hasattr(random_state, "randint"):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidSetting(f"random_state must be a seed >= 0 or a Generator, got {random_state!r}.") from None
