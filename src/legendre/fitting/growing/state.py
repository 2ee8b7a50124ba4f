"""A growing basis and its fit: features, the data they are fitted to, theta, and a factor of their correlations.

A feature is 1 on a box, ``lo <= v < hi``, and 0 elsewhere. The box of a cell reaches from it to the end of every mode.
The mean of its feature is one suffix sum, and the mean of the product of two features is the suffix sum at the join of
their cells, eq. (5) of the paper. The sum over any other box takes the suffix sums at all of its corners.

A basis grows in rounds, and every round needs a fit. These fits take chord steps: Newton steps with the Cholesky factor
of an older Fisher matrix. A new factor is computed only where that is cheaper than the steps it saves. Faces and rank
are not searched for: `DataGrid.vanishing` takes out cells that surely vanish, and damping on the factor's diagonal
makes dependent parameters harmless. When growing has ended, `fit_on` fits the basis and does these searches.

The Fisher matrix is kept as correlations and standard deviations of the features, ``G_ij = C_ij s_i s_j``: correlations
change more slowly than standard deviations, so an old factor of C with the present s still proposes good steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import blas, lapack

from legendre.core import limits
from legendre.core.cells import strides_of
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import accumulate, moebius_adjoint, zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Shape, frozen
from legendre.data.dense import Dense
from legendre.results.growth_path import GrowthStep
from legendre.solvers.linesearch import backtrack

LEAST_VARIANCE = 1e-13
"""A feature with no more variance than this counts as constant: suffix sums have rounding errors of this size."""
Region = tuple[tuple[slice, ...], tuple[slice, ...], int, int]
"""Cells without data that the fit makes vanish: those in the first box and not in the second, which may be empty. The
numbers are those of the two features whose boxes these are, counted from 1. As the first number 0 stands for the whole
grid, as the second for no feature."""


def inverse_deviation(mean: FloatArray) -> FloatArray:
    """Return one over the standard deviation of features that are 1 with probability `mean`; 0 for constant features.

    Multiplying by 0 takes constant features out of gains, correlations and steps without a special case.

    >>> inverse_deviation(np.array([0.5, 0.0, 1.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    variance = mean * (1.0 - mean)
    usable = variance > LEAST_VARIANCE
    return np.where(usable, 1.0 / np.sqrt(np.where(usable, variance, 1.0)), 0.0)


@frozen
class Features:
    """The boxes of k features, by two opposite corners. Arrays are (modes, k).

    A coordinate is stored multiplied by the stride of its mode. Summed over modes, these are the place of a corner in
    the flat grid; if the larger of two is taken in each mode, the place of the join of two corners.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32] | None = None  # the first coordinates behind each box; None: every box is that of a cell

    def __len__(self) -> int:
        return int(self.low.shape[1])

    @cached_property
    def places(self) -> IntArray:
        """The place of the first cell of each box in the flat grid, (k,): eta there is the mean of a cell's feature."""
        return np.asarray(self.low.sum(axis=0, dtype=np.int64))

    def take(self, chosen: IntArray | BoolArray) -> Features:
        """Return the features at some positions, or those that are marked True, as when features are dropped."""
        high = None if self.high is None else np.ascontiguousarray(self.high[:, chosen])
        return Features(np.ascontiguousarray(self.low[:, chosen]), high)

    def concatenate(self, other: Features) -> Features:
        """Return these features followed by others, as when a basis grows: the order is that of theta."""
        high = None if self.high is None or other.high is None else np.concatenate([self.high, other.high], axis=1)
        return Features(np.concatenate([self.low, other.low], axis=1), high)


@frozen
class DataGrid:
    """X on a grid, its suffix sums, and how features are summed on that grid.

    Arrays over the grid are flat, in C order, and a *place* is an index into them. If boxes grow, the grid has a
    border: one more level at the end of each mode, with nothing in it, so that a corner behind the last level has a
    suffix sum too, which is 0.
    """

    data: Dense
    shape: Shape  # of X, or of the merged grid, see `merge`; the border is included
    border: int  # 1 if there is a border, else 0
    eta_hat: FloatArray  # suffix sums of P, which is X over its sum
    log_measure: FloatArray | None  # log of the base measure, -inf outside Omega; None where it is 0 everywhere
    n_above: FloatArray | None  # cells with X > 0 at or above each; None if X > 0 on Omega, so that nothing vanishes
    observed: IntArray | None  # the places of cells with X > 0; None where these are all cells of the grid

    @classmethod
    def of(cls, data: Dense, *, boxes: bool = False) -> DataGrid:
        """Read X into the sums that growing needs, once for all rounds; `boxes` adds the border that boxes need."""
        p, mask = data.probabilities, data.support.mask
        log_measure = np.zeros(p.shape)
        with np.errstate(divide="ignore"):
            if data.base is not None:
                log_measure = np.log(data.base)
        if mask is not None:
            log_measure = np.where(mask, log_measure, -np.inf)
        if boxes:
            p, log_measure = np.pad(p, (0, 1)), np.pad(log_measure, (0, 1), constant_values=-np.inf)
        n_above = None if data.positive else zeta_adjoint((p > 0).astype(np.float64)).ravel()
        flat = log_measure.ravel() if log_measure.any() else None
        observed = None if n_above is None and flat is None else np.flatnonzero(p > 0)
        return cls(data, p.shape, int(boxes), zeta_adjoint(p).ravel(), flat, n_above, observed)

    @cached_property
    def compiled(self) -> bool:
        """Whether compiled code computes suffix sums and correlations; for a small X, loading it would take longer.

        Boxes (a border) load it anyway, because `ascend` and `box_correlations` exist in compiled form alone.
        """
        return self.eta_hat.size > limits.NUMPY_CELLS or self.data.compiled or self.border > 0

    @cached_property
    def strides(self) -> IntArray:
        """How far apart neighbours along each mode are in the flat grid, (N,): C order, so the last mode has 1."""
        return strides_of(self.shape)

    @property
    def ends(self) -> IntArray:
        """The number of levels of each mode, without the border, (N,): the far corner of the box of a cell."""
        return np.array(self.shape, dtype=np.int64) - self.border

    def cell_features(self, places: IntArray) -> Features:
        """Return the features of the cells at some places in the flat grid, in that order."""
        return self.box_features(np.stack(np.unravel_index(places, self.shape), axis=-1))

    def box_features(self, lo: IntArray, hi: IntArray | None = None) -> Features:
        """Return the features of boxes ``lo <= v < hi`` (coordinates, k x N each); without `hi`, of the cells `lo`."""
        if hi is None and self.border:  # where boxes grow, cells are stored as boxes too
            hi = np.broadcast_to(self.ends, lo.shape)
        low = (lo * self.strides).T.astype(np.int32, order="C")
        return Features(low, None if hi is None else (hi * self.strides).T.astype(np.int32, order="C"))

    def corners(self, features: Features) -> tuple[IntArray, IntArray]:
        """Return the coordinates `lo` and `hi` of boxes, k x N each: the inverse of `box_features`.

        What leaves this package, and what compares boxes mode by mode, needs coordinates, not places.
        """
        lo = features.low.T // self.strides
        return lo, np.broadcast_to(self.ends, lo.shape) if features.high is None else features.high.T // self.strides

    def means(self, eta: FloatArray, features: Features) -> FloatArray:
        """Return the sum over each box, (k,), read from suffix sums over the grid.

        With `eta`, the suffix sums of probabilities, these are the means of the features.
        """
        if features.high is None:
            return eta[features.places]
        return np.asarray(sum(sign * eta[places] for sign, places in self._signed_corners(features)))

    def spread(self, features: Features, values: FloatArray) -> FloatArray:
        """Return for each cell the sum of the values of the boxes that contain it: from theta, log(q / r) + psi.

        It is the transpose of `means`: signed values are put at the corners of their boxes, then prefix sums are taken.
        """
        out = np.zeros(self.eta_hat.size)
        for sign, places in self._signed_corners(features):
            np.add.at(out, places, sign * values)
        self.sum_up(out, back=False)
        return out

    def _signed_corners(self, features: Features) -> Iterator[tuple[float, IntArray]]:
        """For each of the 2^N corners of a box, yield its sign and its places, one for each of the k boxes, (k,).

        By inclusion and exclusion, the sum over a box is the signed sum of the suffix sums at its corners. For the box
        of a cell all suffix sums but the first are 0, so only its first corner is yielded.
        """
        if features.high is None:
            yield 1.0, features.places
            return
        for far in itertools.product((False, True), repeat=len(self.shape)):
            places = np.where(np.array(far)[:, None], features.high, features.low).sum(axis=0)
            yield (-1.0) ** sum(far), places

    def sum_up(self, values: FloatArray, *, back: bool) -> None:
        """Replace values on the grid, in place, by prefix sums; by suffix sums if `back`.

        A prefix sum is over the cells at or below a cell in every mode, a suffix sum over those at or above it.
        """
        if self.compiled:
            from legendre.core.sums.kernels.dense import sum_grid

            sum_grid(values.reshape(self.shape), back=back)
        else:
            accumulate(np.flip(values.reshape(self.shape)) if back else values.reshape(self.shape))

    def merge(self, features: Features, fewer: int = 2) -> tuple[DataGrid, Features]:
        """Merge cells that no feature tells apart (`Quotient`); return the merged grid and the features on it.

        The fit has the same theta and KL there and takes less time. If the merged grid does not have `fewer` times
        fewer cells, or if boxes grow, which need a border, the grid and the features are returned as they are.
        """
        cells = self.corners(features)[0]
        quotient, boxes = Quotient.of(self.shape, cells)
        if self.border or fewer * quotient.n_merged > self.eta_hat.size:
            return self, features
        # the suffix sum at a merged cell is that at its first cell, so nothing is summed again
        measure, first, observed = quotient.volumes, np.ix_(*quotient.cuts), self.observed
        if self.log_measure is not None:
            measure = quotient.merge(np.exp(self.log_measure).reshape(self.shape))
        n_above = None if self.n_above is None else self.n_above.reshape(self.shape)[first]
        # cells with data: where X > 0 on Omega all with a measure, else those that contain some (Moebius inversion)
        if observed is not None:
            observed = np.flatnonzero(measure if n_above is None else moebius_adjoint(n_above))
        with np.errstate(divide="ignore"):
            log_measure = np.log(measure).ravel()
        grid = replace(
            self,
            shape=quotient.merged_shape,
            eta_hat=self.eta_hat.reshape(self.shape)[first].ravel(),
            log_measure=log_measure,
            n_above=None if n_above is None else n_above.ravel(),
            observed=observed,
        )
        return grid, grid.box_features(boxes)

    def vanishing(self, features: Features) -> BoolArray | None:
        """Mark the cells of the grid whose probability tends to 0 in the fit, as far as `empty_regions` finds them.

        The fit leaves them out, because it would send theta to infinity. ``None`` means that there are none.
        """
        out = np.zeros(self.shape, dtype=np.bool_)
        for outer, hole, *_ in self.empty_regions(features):
            # mark the outer box, but leave the hole in it as it was
            kept = out[hole].copy()
            out[outer] = True
            out[hole] = kept
        return out.ravel() if out.any() else None

    def empty_regions(self, features: Features) -> list[Region]:
        """List regions without data that one feature, or a pair of features, separates from the cells with data.

        The fit gives the boxes of features the same probabilities as P does, so these regions vanish. A box without
        data is one. If one box lies in another and has all of its data, the rest of the outer box is one; the outer
        box may be the whole grid. Combinations of more features are left to the last fit.
        """
        if self.n_above is None:
            return []
        ends = self.corners(features)
        # number 0 is the whole grid, number i the feature i - 1
        lo, hi = np.vstack([0 * self.ends, ends[0]]), np.vstack([self.ends, ends[1]])
        # cells with data in each box; sums at the corners may leave rounding errors
        counts = np.append(self.n_above[0], np.rint(self.means(self.n_above, features)))

        def box(i: int) -> tuple[slice, ...]:
            """Return the box with a number as an index of the grid."""
            return tuple(map(slice, lo[i].tolist(), hi[i].tolist()))

        nothing = (slice(0),) * len(self.shape)
        regions = [(box(i), nothing, i, 0) for i in np.flatnonzero(counts == 0).tolist()]
        # A box inside another has the same data if it has the same count, so only pairs of equal counts are compared.
        # Sorted by count they stand in runs: if no two boxes `apart` positions apart have equal counts, none farther
        # apart do.
        some = np.flatnonzero(counts > 0)
        some = some[np.argsort(counts[some], kind="stable")]
        for apart in range(1, len(some)):
            one, other = some[:-apart], some[apart:]
            equal = counts[one] == counts[other]
            if not equal.any():
                break
            one, other = one[equal], other[equal]
            for outer, inner in ((one, other), (other, one)):
                inside = (lo[inner] >= lo[outer]).all(axis=1) & (hi[inner] <= hi[outer]).all(axis=1)
                for i, j in zip(outer[inside].tolist(), inner[inside].tolist(), strict=True):
                    regions.append((box(i), box(j), i, j))
        return regions


@frozen
class Moments:
    """Features under one distribution: their means, and one over their standard deviations, (k,) each."""

    grid: DataGrid
    eta: FloatArray  # suffix sums of the distribution over the grid
    features: Features
    mean: FloatArray
    scale: FloatArray  # one over the standard deviations; 0 for a feature that is constant

    @classmethod
    def of(cls, grid: DataGrid, eta: FloatArray, features: Features) -> Moments:
        """Read the means of features from `eta`, the suffix sums of a distribution."""
        mean = grid.means(eta, features)
        return cls(grid, eta, features, mean, inverse_deviation(mean))

    def concatenate(self, other: Moments, chosen: IntArray) -> Moments:
        """Return these followed by the `chosen` of others, as when features are added to a basis.

        Both must be moments under the same distribution.
        """
        mean, scale = np.append(self.mean, other.mean[chosen]), np.append(self.scale, other.scale[chosen])
        return replace(self, features=self.features.concatenate(other.features.take(chosen)), mean=mean, scale=scale)

    def correlations(self, others: Moments, *, lower: bool = False, dtype: DTypeLike = np.float64) -> AnyArray:
        """Return the correlations of these features (rows) with others (columns), as numbers of type `dtype`.

        The mean of the product of two features is the sum over the intersection of their boxes: for two cells, eta at
        their join. With `lower` only the lower triangle is computed, which is all that a Cholesky factor needs.
        """
        own, columns, size = self.features, others.features, (len(self.features), len(others.features))
        rest = others.mean, others.scale
        if own.high is not None and columns.high is not None:
            from legendre.core.sums.kernels.growing import box_correlations

            # each pair of boxes takes a sum over 2^N corners
            out, work = np.zeros(size, dtype), size[0] * size[1] << len(own.low)
            boxes = own.low, own.high, self.mean, self.scale, columns.low, columns.high
            box_correlations(work, size[0], self.eta, *boxes, *rest, out, lower)
            return out
        # from a million pairs on compiled code is worth loading even for a small grid
        if self.grid.compiled or size[0] * size[1] > 1 << 20:
            from legendre.core.sums.kernels.growing import fill_correlations

            out = np.zeros(size, dtype) if lower else np.empty(size, dtype)
            fill_correlations(self.eta, own.low, self.mean, self.scale, columns.low, *rest, out, lower)
            return out
        found = self.eta.take(sum(map(np.maximum.outer, own.low, columns.low)))  # at the places of all joins
        found -= np.outer(self.mean, others.mean)
        found *= np.outer(self.scale, others.scale)
        return np.asarray(found, dtype)


STEPS = 8  # the most chord steps of a fit between two rounds
ROUGH = 3e-5  # the decrease in KL that such a fit may leave undone, as a share of the round's gain or loss
DAMPING = {"d": 1e-9, "f": 1e-6}
"""The least number that is added to the diagonal of the correlations, for a factor in float64 and in float32. With it
the matrix is positive definite to rounding even if parameters are dependent, and these are not moved far."""


@frozen
class GrowingFactor:
    """A Cholesky factor, ``A = L L'``, to which rows can be appended: when features are added, A gets larger.

    It has the type of the matrix that it was computed from. In float32 it takes half the time and has about six digits,
    which is enough for a preconditioner.

    >>> first = GrowingFactor.of(np.array([[4.0, 0.0], [2.0, 5.0]]))
    >>> grown = first.append(first.forward(np.array([[2.0], [3.0]])).T, np.array([[2.0]]))
    >>> grown.solve(np.array([8.0, 10.0, 11.0])).tolist()  # A = [[4, 2, 2], [2, 5, 3], [2, 3, 6]]
    [1.0, 1.0, 1.0]
    """

    panels: tuple[tuple[AnyArray, AnyArray], ...] = ()
    """L in groups of consecutive rows. A panel of c rows after k others holds the part left of the diagonal block
    (c x k), and the transpose of the diagonal block (c x c, upper triangular). To append rows is to append a panel, so
    nothing is copied."""
    kind: str = "d"  # NumPy's character for the type of the numbers: "d" for float64, "f" for float32

    @classmethod
    def of(cls, lower: AnyArray, height: int = 256) -> GrowingFactor | None:
        """Factorise a matrix given by its lower triangle (C order), which is overwritten.

        ``None`` if it is not positive definite to rounding, or has NaN. The factor is cut into panels of `height` rows:
        solving with it is then mostly products of matrices, which are nearly twice as fast as triangular solves.
        """
        k, kind = len(lower), lower.dtype.char
        if not k:
            return cls(kind=kind)
        factorise = lapack.dpotrf if kind == "d" else lapack.spotrf
        # in Fortran order the lower triangle is the upper one of the transpose, and LAPACK works in place: A = U' U
        upper, info = factorise(lower.T, lower=0, clean=0, overwrite_a=1)
        if info or not np.isfinite(upper.diagonal()).all():  # LAPACK need not notice NaN
            return None
        rows = [slice(first, min(first + height, k)) for first in range(0, k, height)]
        return cls(tuple((upper.T[some, : some.start], np.asfortranarray(upper[some, some])) for some in rows), kind)

    def append(self, left: AnyArray, lower: FloatArray) -> GrowingFactor:
        """Return the factor with c more rows of L: `left` (c x k), then their diagonal block `lower` (c x c).

        If B (k x c) are the new columns of A, `left` is the transpose of ``forward(B)``, and `lower` the Cholesky
        factor of what is left of the new diagonal block. Both are known from choosing the features
        (`State.regress_on_basis`, `candidates.pick`), so nothing is factorised.
        """
        panel = np.ascontiguousarray(left, self.kind), np.ascontiguousarray(lower, self.kind).T
        return GrowingFactor((*self.panels, panel), self.kind)

    def forward(self, right: AnyArray, *, overwrite: bool = False) -> AnyArray:
        """Solve ``L x = right``, forward substitution, for a vector (k,) or a matrix (k x m); in the factor's type.

        With `overwrite` the answer takes the place of `right`, which must be in C order and of that type.
        """
        out = right if overwrite else np.array(right, self.kind, order="C")
        solve_vector, solve_matrix = blas.get_blas_funcs(("trsv", "trsm"), dtype=self.kind)
        for left, block in self.panels:
            rows = out[left.shape[1] : left.shape[1] + len(block)]
            if left.size:
                rows -= left @ out[: left.shape[1]]
            # the stored block is the transpose U of the diagonal block: solve U' x = rows, or x' U = rows'
            if out.ndim == 1:
                rows[:] = solve_vector(block, rows, lower=0, trans=1)
            elif out.shape[1]:
                solve_matrix(1.0, block, rows.T, side=1, lower=0, overwrite_b=1)  # contiguous: in place
        return out

    def backward(self, right: AnyArray) -> AnyArray:
        """Solve ``L' x = right``, back substitution, for a vector (k,): the second half of `solve`.

        A fit calls the halves one by one, because the first one's answer, `State.whitened`, says when to stop.
        """
        out, (solve,) = np.array(right, self.kind), blas.get_blas_funcs(("trsv",), dtype=self.kind)
        for left, block in reversed(self.panels):
            first, stop = left.shape[1], left.shape[1] + len(block)
            out[first:stop] = solve(block, out[first:stop], lower=0, trans=0)
            out[:first] -= out[first:stop] @ left
        return out

    def solve(self, right: FloatArray) -> AnyArray:
        """Solve ``A x = right`` for a vector (k,): with A the correlations, a Newton step."""
        return self.backward(self.forward(right))

    def inverse(self) -> AnyArray:
        """Compute the inverse of L (k x k, lower triangular). With it, ``inverse.T @ inverse`` is the inverse of A.

        `losses` in grow.py needs the diagonal of that product, and `select_to_drop` some of its rows and columns.
        """
        k = sum(len(block) for _, block in self.panels)
        lower = np.zeros((k, k), self.kind)
        for left, block in self.panels:
            rows = slice(left.shape[1], left.shape[1] + len(block))
            lower[rows, : rows.start], lower[rows, rows] = left, np.tril(block.T)
        invert = lapack.dtrtri if self.kind == "d" else lapack.strtri
        return np.asarray(invert(lower.T, lower=0, overwrite_c=1)[0].T) if k else lower


@frozen
class FactoredCorrelations:
    """The factor of the correlations of the basis's features, and the moments that these were computed from.

    A fit keeps it while theta moves on, so it may belong to an earlier theta. When growing has ended it is handed to
    the last fit, which bounds its gap with it: a factor of its own would take longer than the fit.
    """

    moments: Moments
    factor: GrowingFactor
    damping: float  # what was added to the diagonal of the correlations, which is 1

    @classmethod
    def of(cls, moments: Moments, *, single: bool) -> FactoredCorrelations:
        """Factorise the correlations with damping, in float32 if `single`.

        If rounding makes that fail, it is tried in float64 with ten times more damping each time. If all attempts fail,
        as they do when eta has NaN, the identity is used: each parameter then takes a Newton step of its own.
        """
        attempts = [("f", DAMPING["f"]), *(("d", 10.0**power) for power in range(-9, -1))]
        for kind, damping in attempts if single else attempts[1:]:
            matrix = moments.correlations(moments, lower=True, dtype=kind)
            np.fill_diagonal(matrix, 1.0 + damping)
            if (factor := GrowingFactor.of(matrix)) is not None:
                return cls(moments, factor, damping)
        identity = np.empty((len(moments.mean), 0)), np.eye(len(moments.mean))
        return cls(moments, GrowingFactor((identity,)), 1.0)

    def apply(self, vector: FloatArray) -> FloatArray:
        """Multiply a vector (k,) by the inverse of the Fisher matrix under `moments`, as a `Preconditioner` does."""
        with limit_blas():
            return self.factor.solve(vector * self.moments.scale) * self.moments.scale


@frozen
class State:
    """A basis of k features and one member Q of its model: the fit, or a point on the way to it.

    A step, or a change of the basis, makes a new state.
    """

    grid: DataGrid
    features: Features
    data_mean: FloatArray  # means of the features under P, (k,): `mean` is equal to it at the fit
    vanished: BoolArray | None  # True for the cells of the grid that vanish; None: there are none
    theta: FloatArray  # (k,)
    log_weights: FloatArray  # log q + psi, over the grid: sums of theta plus the log measure; -inf where q = 0
    eta: FloatArray  # suffix sums of q, over the grid
    psi: float
    last_factored: FactoredCorrelations | None = None  # computed at this theta or at an earlier one; None: not yet

    @classmethod
    def of(cls, grid: DataGrid, features: Features, theta: FloatArray) -> State:
        """Return the member of the model with parameters theta; it has no factor yet.

        Growing begins with it, and whatever changes the grid of a fit makes the state anew with it.
        """
        empty = np.empty(0)  # `at` fills in what follows from theta
        state = cls(grid, features, grid.means(grid.eta_hat, features), None, theta, empty, empty, 0.0)
        return state.at(theta, grid.vanishing(features))

    def at(self, theta: FloatArray, vanished: BoolArray | None, log_weights: FloatArray | None = None) -> State:
        """Evaluate the member of the model with parameters theta, with probability 0 at the cells marked `vanished`.

        A caller that has `log_weights` at this theta passes them on. The factor is kept, though theta has changed. If
        no weight is positive, psi is NaN, and no line search accepts this state.
        """
        log_weights = self.log_density(theta, vanished) if log_weights is None else log_weights
        top = float(log_weights.max())  # subtracted, so that exp does not overflow
        eta = np.subtract(log_weights, top)
        np.exp(eta, out=eta)
        total = float(eta.sum())
        eta /= total  # this is q
        self.grid.sum_up(eta, back=True)
        psi = top + math.log(total) if total > 0 else math.nan
        return replace(self, vanished=vanished, theta=theta, log_weights=log_weights, eta=eta, psi=psi)

    def log_density(self, theta: FloatArray, vanished: BoolArray | None) -> FloatArray:
        """Return log q + psi for each cell of the grid; -inf where q = 0.

        A line search asks for it before it decides how long a step to evaluate, see `_search`.
        """
        log_weights = self.grid.spread(self.features, theta)
        if self.grid.log_measure is not None:
            log_weights += self.grid.log_measure
        if vanished is not None:
            log_weights[vanished] = -np.inf
        return log_weights

    @property
    def q(self) -> FloatArray:
        """The probabilities, over the grid. It may be large, so they are computed when they are asked for."""
        return np.exp(self.log_weights - self.psi)

    @cached_property
    def objective(self) -> float:
        """``psi - theta . eta_hat``, convex in theta: KL(P, Q) minus a constant, so a fit minimises it."""
        return self.psi - float(self.theta @ self.data_mean)

    @property
    def kl(self) -> float:
        """KL(P, Q) in nats, the sum of p log(p / r) plus `objective`; a negative rounding error becomes 0."""
        return max(self.grid.data.negentropy + self.objective, 0.0)

    def measure(self) -> GrowthStep:
        """Measure the size of the basis, its KL and RMSE, for `Decomposition.path`, which adds AIC and BIC.

        The RMSE is on the scale of X, over every cell that is not missing. The state must be on the grid of X.
        """
        data = self.grid.data
        q = self.q.reshape(self.grid.shape)[tuple(map(slice, data.values.shape))]  # without the border
        difference = q * data.total - data.values
        if data.missing is not None:
            difference = difference[~data.missing]
        rmse = float(np.linalg.norm(difference)) / math.sqrt(difference.size)
        return GrowthStep(self.theta.size, self.kl, rmse)

    @cached_property
    def mean(self) -> FloatArray:
        """The means of the features under Q, (k,): the gradient of the objective is ``mean - data_mean``."""
        return self.grid.means(self.eta, self.features)

    @cached_property
    def scale(self) -> FloatArray:
        """One over the standard deviations of the features at this theta, (k,); 0 for constant features.

        Together with the correlations of the factor, which may be older, they stand for the Fisher matrix. If a mean of
        the model is far from that of the data, Newton's step is much too long or too short: for a mean of 1e-13 that
        should be 0.1 it is 10^12 long. The scale of such a feature is chosen so that a step of its theta alone,
        ``(data_mean - mean) scale^2``, has the exact length, which is the difference of log-odds.
        """
        with np.errstate(all="ignore"):
            scale = inverse_deviation(self.mean)
            ahead = np.log(self.data_mean * (1.0 - self.mean) / (self.mean * (1.0 - self.data_mean)))
            # far: odds that differ by a factor of more than 1000, where a quadratic model is of no use
            far = np.isfinite(ahead) & (np.abs(ahead) > math.log(1000.0))
            scale[far] = np.sqrt(ahead[far] / (self.data_mean - self.mean)[far])
        return scale

    @cached_property
    def whitened(self) -> FloatArray:
        """The negative gradient, ``data_mean - mean``, in coordinates in which the Fisher matrix is the identity, (k,).

        The Fisher matrix is taken as the factor's correlations with the present `scale`. The squared length is the
        squared Newton decrement; half of that is the decrease in KL that a step promises.
        """
        return self.factored.factor.forward((self.data_mean - self.mean) * self.scale).astype(np.float64)

    @cached_property
    def recession(self) -> FloatArray:
        """A direction in theta, (k,), that lowers log q at cells that vanish, relative to all others.

        Its entries are not 0 for the features that make cells vanish. These cannot be dropped without those cells
        coming back, and the last fit starts its search for a face with this direction.
        """
        direction = np.zeros(self.theta.size + 1)  # entry 0, for the whole grid or for no feature, is cut off
        # minus 1 on the outer box and plus 1 on the inner one: only the region between them is lowered
        for *_, outer, inner in self.grid.empty_regions(self.features):
            direction[outer] -= 1.0
            direction[inner] += 1.0
        return direction[1:]

    @property
    def factored(self) -> FactoredCorrelations:
        """`last_factored`, for callers that know that there is one: `with_factor` and `fit` compute it."""
        assert self.last_factored is not None
        return self.last_factored

    @property
    def factor_is_current(self) -> bool:
        """Whether the factor was computed at this theta, so that a new one would be no better."""
        return self.last_factored is not None and self.last_factored.moments.eta is self.eta

    def with_factor(self, *, double: bool = False) -> State:
        """Return this state with a factor of the correlations at this theta; the state itself if it has one.

        From `limits.SINGLE_FACTOR` features on, the factor is in float32, which takes half the time. `double` asks for
        float64, which is needed to tell near-duplicates apart.
        """
        if self.factor_is_current and not (double and self.factored.factor.kind == "f"):
            return self
        single = self.theta.size >= limits.SINGLE_FACTOR and not double
        return replace(
            self, last_factored=FactoredCorrelations.of(Moments.of(self.grid, self.eta, self.features), single=single)
        )

    def on_merged_grid(self) -> State:
        """Return the same member of the model on the merged grid, see `DataGrid.merge`; it has no factor.

        It is faster where many fits of a basis follow, as in `Search.prune` and `order_features`.
        """
        return State.of(*self.grid.merge(self.features), self.theta)

    def under_uniform(self) -> State:
        """Return the basis under the uniform distribution on Omega, with a factor in float64.

        `mark_independent` asks there whether features are linearly dependent. The answer is the same under every
        positive distribution, but where probabilities differ by many powers of ten, rounding hides it.
        """
        measure = self.grid.log_measure
        # a measure of 1 on Omega, and `n_above` as if all cells had data, so that none vanishes
        grid = replace(
            self.grid, n_above=None, log_measure=None if measure is None else np.where(measure > -np.inf, 0.0, measure)
        )
        return State.of(grid, self.features, np.zeros(self.theta.size)).with_factor(double=True)

    def max_squared_correlation(self, found: Features) -> FloatArray:
        """Return, for each feature found, its largest squared correlation with a feature of the basis, (len(found),).

        It is a cheap lower bound on the share of its variance that the basis explains. Scoring candidates with it keeps
        near-duplicates of the basis from filling the short list.
        """
        basis, out = self.factored.moments, np.zeros(len(found))
        step = max(1, (1 << 17) // max(self.theta.size, 1))  # blocks of 2^17 float32 (512 KiB) stay in the cache
        for first in range(0, len(out), step):
            part = np.arange(first, min(first + step, len(out)))
            own = Moments.of(self.grid, basis.eta, found.take(part)).correlations(basis, dtype=np.float32)
            out[part] = np.maximum(own.max(axis=1, initial=0.0), -own.min(axis=1, initial=0.0)) ** 2
        return out

    def regress_on_basis(self, found: Features) -> tuple[Moments, FloatArray, FloatArray, AnyArray]:
        """Return what `pick` needs to know about m features found, if the basis of k features is refitted with them.

        These are their moments; their gradients (m,) and covariances (m x m) given the basis, each feature in units of
        its standard deviation; and the transpose of the rows (k x m) that they would have in the factor. "Given the
        basis" means without the part that a Newton step of the basis's own parameters accounts for: the Schur
        complement of the basis in the correlations of all features.
        """
        grid, factored = self.grid, self.factored
        listed, mean = Moments.of(grid, factored.moments.eta, found), grid.means(self.eta, found)
        given = factored.factor.forward(
            factored.moments.correlations(listed, dtype=factored.factor.kind), overwrite=True
        )
        # the basis has a gradient of its own left, as fits are rough; what it accounts for is no candidate's gain
        slope = (grid.means(grid.eta_hat, found) - mean) * inverse_deviation(mean)
        slope -= self.whitened.astype(given.dtype) @ given
        left = listed.correlations(listed, dtype=factored.factor.kind)
        left -= given.T @ given
        # the same damping as in the factor; constant features get variance 0 and are never picked
        np.fill_diagonal(left, np.where(listed.scale > 0, left.diagonal() + factored.damping, 0.0))
        return listed, slope, left, given

    def extend(self, listed: Moments, chosen: IntArray, beside: AnyArray, lower: FloatArray, target: float) -> State:
        """Add the `chosen` of listed features to the basis, with theta 0, and fit roughly: see `fit` for `target`.

        `beside` and `lower` are their rows of the factor, see `GrowingFactor.append`: no new factor is needed.
        """
        grid, theta = self.grid, np.append(self.theta, np.zeros(len(chosen)))
        moments = self.factored.moments.concatenate(listed, chosen)
        factored = replace(self.factored, moments=moments, factor=self.factored.factor.append(beside, lower))
        features, data_mean = moments.features, grid.means(grid.eta_hat, moments.features)
        larger = replace(self, features=features, data_mean=data_mean, theta=theta, last_factored=factored)
        vanished = grid.vanishing(features)
        # where few features cut a large grid, the merged grid takes less time: from 6 times fewer cells on it pays for
        # the merging and for the factor that is computed on the grid afterwards
        boxes, merged = grid.merge(features, 6) if grid.eta_hat.size > limits.NUMPY_CELLS else (grid, features)
        if boxes is not grid:
            return larger.at(State.of(boxes, merged, theta).fit(target, STEPS)[0].theta, vanished).with_factor()
        # new parameters of 0 leave Q as it was, unless they make more cells vanish
        if vanished is not None and not (self.vanished is not None and np.array_equal(vanished, self.vanished)):
            larger = larger.at(theta, vanished)
        settled = larger.settle(target)
        # when the basis reaches the size from which factors are in float32, compute one; an appended one stays float64
        return settled.with_factor() if self.theta.size < limits.SINGLE_FACTOR <= theta.size else settled

    def settle(self, target: float) -> State:
        """Fit roughly between rounds, see `fit` for `target`; compute a new factor if that saves later rounds time."""
        state, steps = self.fit(target, STEPS)
        # A fit with a new factor takes about two steps. Each of the next two rounds is expected to save the others; a
        # factor that costs no more than one step is always computed.
        pays = max(2 * (steps - 2), 1) >= state._factor_cost
        return state.with_factor() if pays else state

    def fit(self, target: float, steps: int, tol: float = math.inf, factors: float = math.inf) -> tuple[State, int]:
        """Minimise KL by chord steps; return a state near the minimum, and the number of steps taken.

        The fit ends when half the squared Newton decrement, which is about KL minus its minimum, is at most `target`
        and max|eta - eta_hat| is at most `tol`; after `steps` steps; or when no step is good any more. A step uses the
        last factor; a new one is computed if that is cheaper than going on with it (`_factor_pays`), or if it proposes
        no good step, at most `factors` times.
        """
        state, last, done = self if self.last_factored is not None else self.with_factor(), math.inf, 0
        with np.errstate(all="ignore"):
            while state.theta.size:
                decrement = float(state.whitened @ state.whitened) / 2.0
                arrived = decrement <= target and float(np.abs(state.data_mean - state.mean).max()) <= tol
                if arrived or done >= steps or not math.isfinite(decrement):
                    break
                stay = state.factor_is_current or not state._factor_pays(decrement, last, target)
                after = state._search(-2.0 * decrement) if stay else None
                if after is None:  # a new factor pays, or no step with the last one is good
                    if state.factor_is_current or not factors:
                        break
                    state, last, factors = state.with_factor(), math.inf, factors - 1
                    continue
                state, last, done = after, decrement, done + 1
        return state, done

    @property
    def _factor_cost(self) -> float:
        """How many chord steps take as long as a new factor.

        For k features a factor takes k^2 correlations and Cholesky's k^3 flops; a step takes sweeps over the cells of
        the grid and two triangular solves, k^2 each. The weights were fitted to measured times; their unit cancels.
        """
        size = self.theta.size
        return (size**3 / 90.0 + size**2 + 5e4) / (8.0 * self.grid.eta_hat.size + size**2 + 1e5)

    def _factor_pays(self, decrement: float, last: float, target: float) -> bool:
        """Whether a new factor and two steps with it are cheaper than the steps that the present factor still needs.

        Chord steps converge linearly: each multiplies the decrement (here half its square) by about the same rate. From
        the decrements now and one step before (`last`; infinite before the first step) follows how many are left to
        `target`. Before the first step 3 are assumed; with a rate of 0.9 or more it is hopeless.
        """
        rate, left = decrement / last if last > 0 else math.inf, 3.0
        if decrement > 0 and last < math.inf:
            left = math.log(max(target, 1e-18) / decrement) / math.log(max(rate, 1e-9)) if rate < 0.9 else math.inf
        return decrement > 0 and left - 2 > self._factor_cost

    def _search(self, slope: float, deepest: float = 3.0) -> State | None:
        """Take the step that the factor proposes, shortened by a line search; ``None`` if no step is good.

        `slope` is the derivative of the objective along it, the squared Newton decrement with a minus sign. The first
        length that is tried lets log q fall by at most about `deepest` at cells with data: a far longer step can make
        their q so small that it no longer counts in the means, and later steps do not bring it back.
        """
        direction = self.factored.factor.backward(self.whitened) * self.scale
        log_weights = self.log_density(self.theta + direction, self.vanished)
        mean, change = float(self.mean @ direction), log_weights - self.log_weights
        # log q changes by `change` minus the rise of psi, which is `mean` to first order. The largest fall is first
        # taken over all cells (cells that vanish have NaN, which fmin skips); if it is too large, over those with data
        fall = mean - float(np.fmin.reduce(change))
        if fall > deepest and self.grid.observed is not None:
            fall = mean - float(change[self.grid.observed].min())
        first = 1.0 if fall <= deepest else deepest / fall

        def phi(step: float) -> tuple[float, float, State]:
            """Return the rise of the objective, its slope, and the state after a step of this length."""
            after = self.at(self.theta + step * direction, self.vanished, log_weights if step == 1.0 else None)
            return after.objective - self.objective, float((after.mean - self.data_mean) @ direction), after

        # a direction as long as 1e100 comes from variances that are rounding errors
        if not (np.isfinite(direction).all() and np.abs(direction).max(initial=0.0) < 1e100):
            return None
        # `noise` is the rounding error of the objective, as in `solvers.linesearch.search`. The search ends at a short
        # step already, because a new factor then brings more than a tiny step
        noise = 8 * float(np.finfo(np.float64).eps) * (abs(self.psi) + float(np.abs(self.theta) @ self.data_mean) + 1.0)
        found = backtrack(phi, slope, first=first, shortest=1e-4 * first, noise=noise)
        return None if found is None else found[1]

    def without(self, gone: IntArray) -> State:
        """Return the state without the features at positions `gone`, with a new factor; it is not fitted yet.

        The other parameters take the Newton step that makes up for the loss to first order, a good start for a fit.
        """
        grid, left = self.grid, np.delete(np.arange(self.theta.size), gone)
        # Let f be the part of log q that is lost. The step is the projection of f onto the other features under Q:
        # G^-1 times the covariances of f with them, which are sums of (f - E f) q over their boxes.
        lost = grid.spread(self.features.take(gone), self.theta[gone])
        q = self.q
        lost -= float(q @ lost)
        lost *= q
        grid.sum_up(lost, back=True)
        theta = self.theta[left]
        less = replace(
            self, features=self.features.take(left), data_mean=self.data_mean[left], theta=theta, last_factored=None
        ).with_factor()
        vanished = grid.vanishing(less.features) if self.recession[gone].any() else self.vanished
        move = less.factored.factor.solve(grid.means(lost, less.features) * less.scale) * less.scale
        return less.at(theta + move, vanished)
