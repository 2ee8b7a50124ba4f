"""Features of new slices: their parameters and expectations on a basis that was chosen on others."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.arguments import is_real
from legendre.core.array_libraries import rectangular
from legendre.core.cells import cell_name
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSamples, InvalidSetting, unknown_name
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dense import observe
from legendre.tasks.estimators.base import WithParams
from legendre.tasks.estimators.shared_cells import shared_cells
from legendre.tasks.estimators.slice_model import Member, SliceModel
from legendre.tasks.estimators.slices import Slices, distributions, shares

Features = Literal["eta", "theta", "both"]
FEATURES, CONTAINERS = ("eta", "theta", "both"), ("default", "pandas", "polars")


class LegendreTransformer(WithParams):
    """Features of slices: each is projected on its own onto the model of one slice with a shared basis.

    The first mode of X numbers the samples. `fit` chooses the cells of the basis B on the training slices; `transform`
    takes new ones, divides each by its sum and returns its expectations eta or its natural parameters theta on B.
    Expectations (the default) are sums of the slice at or above each cell: linear in the slice, and always defined.
    Parameters are the unique solution of a convex problem, on the scale of logarithms.

    Parameters
    ----------
    basis
        A basis of one slice. ``adaptive(n)`` is grown on all training slices at once, each with parameters of its own,
        for the least KL of all of them together; its `start` and `candidates` are kept to, `swaps` has no meaning
        here. Other recipes that look at X (``"B3(2)"``) see the sum of the slices.
    shape
        The shape of a slice, where X has it written out in rows: ``(8, 8)`` for rows of 64 numbers. Default: the modes
        of X but the first.
    features
        ``"eta"``, ``"theta"``, or ``"both"``: theta, then eta.
    alpha
        Mix every slice with a uniform one of weight alpha, from 0 to below 1. If a slice has zeros, theta may be
        infinite, which is an error; ``alpha > 0`` keeps it finite.
    tol
        theta is found when ``max|eta - eta_hat|`` on B is at most tol, in every slice.

    Attributes
    ----------
    basis_
        The cells of B, k x N, in coordinates of a slice.
    shape_
        The shape of a slice.
    n_features_in_, feature_names_in_
        The number of cells of a slice; the names of the columns where X is a data frame.

    See Also
    --------
    decompose : Fit X by a model with some basis.
    adaptive : A basis that the data choose.
    LegendreDensity : The distribution of rows of categories.

    Notes
    -----
    X may be an array in memory or on disk, a dask array, a data frame or a sparse matrix: it is read block by block,
    and never held as a whole. Sparse tensors of more modes and Series are written out. A basis is grown on evenly
    spaced slices of a large X. The sum of a slice is not a feature; add it as a column if it matters. A slice of zeros
    is taken as a uniform one, theta = 0, and has no weight in `fit`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.random.default_rng(0).random((20, 4, 5))
    >>> features = ld.LegendreTransformer([[2, 0], [0, 3]]).fit(X)
    >>> features.transform([[[1, 1, 1, 1, 1]] * 2 + [[3, 3, 3, 3, 3]] * 2]).round(3).tolist()
    [[0.75, 0.4]]
    >>> features.set_params(features="theta").transform([[[1, 1, 1, 1, 1]] * 2 + [[3, 3, 3, 3, 3]] * 2]).round(3) + 0.0
    array([[1.099, 0.   ]])
    """

    basis_: IntArray
    shape_: tuple[int, ...]
    n_features_in_: int
    _fitted = "basis_"
    _container: str | None = None
    _form: tuple[int, ...]  # of a sample as `fit` got it: a slice, or a row

    def __init__(
        self,
        basis: Basis | str | ArrayLike = "adaptive(16)",
        *,
        shape: Any = None,
        features: Features = "eta",
        alpha: float = 0.0,
        tol: float = 1e-10,
    ) -> None:
        self.basis, self.shape, self.features, self.alpha, self.tol = basis, shape, features, alpha, tol

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the basis on the slices of X."""
        del y
        self._check_settings()
        slices, recipe = Slices.read(X, self.shape), as_basis(self.basis)
        if slices.n_cells == 1:
            raise InvalidSamples("X has 1 feature(s): a slice of one cell has no parameter.")
        self.basis_ = self._chosen(slices, recipe)
        self.shape_, self.n_features_in_ = slices.shape, slices.n_cells
        self._form, self._labels = tuple(slices.values.shape[1:]), slices.labels
        self._keep_names(slices.names)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of each slice, n x k (2k for ``"both"``)."""
        self._check_fitted()
        self._check_settings()
        slices, model = Slices.read(X, self.shape), SliceModel.of(self.shape_, self.basis_)
        self._check_slices(slices)
        found: list[FloatArray] = []
        for block in slices.blocks(limits.SLICE_BLOCK, type(self).__name__):
            p = distributions(block, float(self.alpha))
            eta = model.sums_above(p)[:, model.places]
            if self.features != "eta":
                theta = self._theta(model, eta, certain=bool((p > 0).all()), first=sum(map(len, found)))
                eta = theta if self.features == "theta" else np.concatenate([theta, eta], axis=1)
            found.append(eta)
        return self._contained(np.concatenate(found), slices)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Choose the basis on the slices of X, and return their features."""
        return self.fit(X, y).transform(X)

    def inverse_transform(self, X: ArrayLike, sums: ArrayLike | None = None) -> FloatArray:
        """Return the slices with these features: members of the model, n x ..., or in rows as `fit` got them.

        Parameters
        ----------
        X
            Features, n x k as `transform` returns them.
        sums
            The sums of the slices, n numbers; by default 1.
        """
        self._check_fitted()
        self._check_settings()
        given, names = rectangular(X, "X", InvalidSamples), self.get_feature_names_out()
        if given.ndim != 2 or given.shape[1] != len(names) or given.dtype.kind not in "iuf":
            raise InvalidSamples(f"X must have {len(names)} features in each row; got shape {given.shape}.")
        if not np.isfinite(given).all():
            raise InvalidSamples(f"Input X contains NaN or infinity, in row {np.argwhere(~np.isfinite(given))[0, 0]}.")
        model, k = SliceModel.of(self.shape_, self.basis_), len(self.basis_)
        rows = max(1, limits.SLICE_BLOCK // model.quotient.n_merged)
        out = np.empty((len(given), *self.shape_))
        for first in range(0, len(given), rows):
            part = given[first : first + rows, :k].astype(np.float64)
            at = self._with_eta(model, part, first) if self.features == "eta" else model.at(part)
            out[first : first + rows] = model.tensors(at)
        if sums is not None:
            scale = rectangular(sums, "sums", InvalidSamples)
            if scale.shape != (len(out),) or scale.dtype.kind not in "biuf":
                raise InvalidSamples(f"sums must hold {len(out)} numbers, one for each row; got shape {scale.shape}.")
            out *= scale.reshape(-1, *(1,) * len(self.shape_))
        return out.reshape(len(out), *self._form)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> AnyArray:
        """Return the names of the features: ``eta[2, 0]``, by cells of B; names of X's columns are only checked."""
        self._check_fitted()
        if input_features is not None:
            given, seen = list(np.asarray(input_features)), getattr(self, "feature_names_in_", None)
            if len(given) != self.n_features_in_:
                raise InvalidSamples(f"input_features should have length equal to {self.n_features_in_}: {len(given)}.")
            if seen is not None and given != list(seen):
                raise InvalidSamples("input_features is not equal to feature_names_in_, the columns that fit saw.")
        kinds = ("theta", "eta") if self.features == "both" else (self.features,)
        return np.array([f"{kind}{cell_name(cell)}" for kind in kinds for cell in self.basis_], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: ``"default"`` (arrays), ``"pandas"`` or ``"polars"``; None: as it is."""
        if transform is not None:
            if transform not in CONTAINERS:
                raise InvalidSetting(unknown_name("transform", str(transform), CONTAINERS))
            self._container = transform
        return self

    def _chosen(self, slices: Slices, recipe: Basis) -> IntArray:
        """Choose the cells: grown on some slices, or listed for the sum of all."""
        name = type(self).__name__
        if recipe.boxed is not None:
            raise InvalidBasis(f"{recipe!r}: boxes are not grown for slices; use adaptive(n).")
        if (growing := recipe.growing) is not None:
            values = slices.some(limits.SHARED_CELLS, limits.SHARED_SLICES, name)
            return shared_cells(distributions(values, float(self.alpha)), shares(values), growing)
        whole = sum(block.sum(axis=0) for block in slices.blocks(limits.SLICE_BLOCK, name))
        terms = recipe.terms(observe(whole))
        if terms.ties is not None:
            raise InvalidBasis(f"{recipe!r} has tied parameters; features of slices are of cells, one parameter each.")
        return terms.cells

    def _theta(self, model: SliceModel, eta: FloatArray, *, certain: bool, first: int) -> FloatArray:
        """Fit slices by their expectations; refuse those that no finite theta fits."""
        fits = model.fitted(eta, self.tol, prove=not certain)
        if not certain and not fits.proven.all():
            row = first + int(np.argmin(fits.proven))
            raise InvalidSamples(
                f"X[{row}] has zeros, and no finite theta fits it: some parameters run to infinity. Take "
                "features='eta', which is always finite, or alpha > 0, such as 0.01, which mixes in an even slice."
            )
        self._warn(fits.residual, first)
        return fits.at.theta

    def _with_eta(self, model: SliceModel, eta: FloatArray, first: int) -> Member:
        """Find the members with these expectations, in the limit where they are on the boundary."""
        fits = model.fitted(eta, self.tol)
        self._warn(fits.residual, first)
        return fits.at

    def _warn(self, residual: FloatArray, first: int) -> None:
        if len(residual) and residual.max() > self.tol:
            row = int(residual.argmax())
            text = f"row {first + row} ended at max|eta - eta_hat| = {residual[row]:.2e}, above tol = {self.tol:g}"
            warnings.warn(f"{text} ({int((residual > self.tol).sum())} rows did).", ConvergenceWarning, stacklevel=4)

    def _check_settings(self) -> None:
        if self.features not in FEATURES:
            raise InvalidSetting(unknown_name("features", str(self.features), FEATURES))
        if not (is_real(self.alpha) and 0 <= self.alpha < 1):
            raise InvalidSetting(f"alpha must be a number from 0 to below 1, got {self.alpha!r}.")
        if not (is_real(self.tol) and self.tol >= 0):
            raise InvalidSetting(f"tol must be a number >= 0, got {self.tol!r}.")

    def _check_slices(self, slices: Slices) -> None:
        """Refuse slices of another form than `fit` saw."""
        if slices.n_cells != self.n_features_in_ or slices.shape != self.shape_:
            raise InvalidSamples(
                f"X has {slices.n_cells} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input: slices of shape {self.shape_}, not {slices.shape}."
            )
        if (trouble := slices.unlike(self._labels)) is not None:
            raise InvalidSamples(f"X is not labelled as in fit: {trouble}. X.reindex_like(...) puts levels in order.")
        seen = getattr(self, "feature_names_in_", None)
        if seen is not None and slices.names is not None and list(seen) != slices.names:
            raise InvalidSamples(
                "The feature names should match those that were passed during fit: "
                f"{slices.names} are not {list(seen)}, in that order."
            )

    def _contained(self, features: FloatArray, slices: Slices) -> Any:
        """Put features in the kind of table that was asked for, here or in scikit-learn's configuration."""
        loaded = sys.modules.get("sklearn")
        kind = self._container or ("default" if loaded is None else loaded.get_config()["transform_output"])
        if kind == "pandas":
            import pandas as pd

            return pd.DataFrame(features, index=slices.index, columns=self.get_feature_names_out())
        if kind == "polars":
            import polars as pl

            return pl.DataFrame(features, schema=self.get_feature_names_out().tolist(), orient="row")
        return features

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(three_d_array=True, sparse=True, positive_only=True),
        )
