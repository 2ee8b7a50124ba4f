"""Expectation-maximisation for rows that lack values: the E step shares them out, the M step is an exact fit.

Both steps raise the likelihood of what was observed, and so does a Newton step between them, which is taken where it
raises it further. That likelihood is not concave in general: what is found is a stationary point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from legendre.basis.basis import Basis
from legendre.core.cells import frozen
from legendre.core.errors import InvalidSupport
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense, observe
from legendre.data.partial_table import PartialTable, Pattern
from legendre.fitting.fit import fit_on
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.solvers.structure.rank import independent
from legendre.tasks.loglinear.observed import Observed, margins_on

MOST_STEPS = 2000  # rounds of both steps
STRETCH = 500  # of them, after which small counts are first tried as 0 where the end is not in sight
LENGTHS = (1.0, 0.25, 0.0625)  # shares of a Newton step that are tried
FLATTEST = 1e-6  # shares of the information that was observed below this count as this: they do not show how far to go
PATIENCE = 10  # rounds without a rise, nor a smaller gradient, after which nothing more is to be had
BETTER = 0.9  # a gradient that is smaller by less than this factor is no better
NOTHING = 1e-4  # fitted counts below this are tried as 0 in the end
GONE = 1e-12  # and at once below this
SMALLEST = 4 * float(np.finfo(np.float64).tiny)  # shares of all rows below this would lose their digits
WIDEST = 1.0 / float(
    np.finfo(np.float64).eps
)  # ratio of two factors exp(offset); at exp(40) fits stall, at exp(36) none
SHARE = 0.1  # of tol to which each exact fit is taken


@dataclass(frozen=True, eq=False)
class Incomplete:
    """Rows that lack values, with their sample space and base measure."""

    table: PartialTable
    mask: BoolArray | None  # False where a cell cannot occur
    base: FloatArray | None

    def observation(self, cells: IntArray, expected: FloatArray) -> Dense:
        """Return a completed table as X."""
        values = np.zeros(self.table.shape)
        values[tuple(cells.T)] = np.where(expected > 0, np.maximum(expected, SMALLEST * self.table.total), 0.0)
        found = observe(frozen(values), "all" if self.mask is None else self.mask, self.base)
        return replace(found, origin=replace(self.table.origin, completed=True))

    def start(self) -> tuple[IntArray, FloatArray]:
        """List the cells of the sample space, with the rows shared out evenly, whatever the base measure is."""
        inside = np.ones(self.table.shape, dtype=np.bool_) if self.mask is None else self.mask
        cells = np.argwhere(inside)
        if self.base is not None:
            _check_spread(self.base[inside])
        even = np.full(len(cells), 1.0 / len(cells))
        margins = margins_on(self.table, cells)
        for margin, pattern in zip(margins, self.table.patterns, strict=True):
            for entry in np.flatnonzero((margin.counts > 0) & (margin.sums(even) == 0))[:1]:
                raise InvalidSupport(self._impossible(pattern, int(entry)))
        return cells, np.sum([margin.shared(even) for margin in margins], axis=0)

    def _impossible(self, pattern: Pattern, entry: int) -> str:
        labels = self.table.origin.of(self.table.shape)
        places = zip(pattern.modes, np.unravel_index(entry, pattern.counts.shape), strict=True)
        named = ", ".join(f"{labels.mode(k)} {labels.level(k, int(i))}" for k, i in places)
        n = int(pattern.counts.ravel()[entry])
        return f"{n:,} {'row has' if n == 1 else 'rows have'} {named}, which support says cannot occur."


def _check_spread(base: FloatArray) -> None:
    """Refuse factors of which the smallest are lost beside the largest."""
    if base.max() / WIDEST > base.min():
        spread = float(np.log(base.max()) - np.log(base.min()))
        raise InvalidSupport(
            f"the offsets differ by up to {spread:.1f}, their factors exp(offset) by exp({spread:.1f}); missing='em' "
            f"takes differences of at most {np.log(WIDEST):.1f}, beyond which the smallest factors are lost to "
            "rounding. Bring the offsets closer together, or say by support= which cells cannot occur."
        )


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where expectation-maximisation ended."""

    fit: Decomposition  # of the completed table
    observed: Observed
    q: FloatArray  # of the cells of `observed`
    residual: float  # the gradient of the likelihood per row: max|eta - eta_hat|, the table completed by Q itself
    path: tuple[float, ...]  # the log-likelihood after each round: it never falls

    @property
    def columns(self) -> IntArray:
        """Parameters that are independent on the cells that carry probability."""
        return independent(self.fit.model.on_face(self.fit.alive))


def ascend(data: Incomplete, basis: Basis, settings: Settings) -> Ascent:
    """Alternate E and M steps until the gradient is at most tol, or the likelihood rises no more."""
    exact = replace(settings, tol=SHARE * settings.tol)
    fit = fit_on(data.observation(*data.start()), basis, exact)
    # A cell without a row that could be its own gets none of them, ever: such cells vanish from the start.
    found = _at_limit(data, basis, _ascended(data, basis, fit, settings, exact, gone=GONE), settings, exact)
    for most in (STRETCH, MOST_STEPS):
        if found.residual > settings.tol and _relative(found.observed, found.q).min() < GONE:
            ended = _ascended(data, basis, found.fit, settings, exact, most=most)
            found = _at_limit(data, basis, ended, settings, exact, ended=True)
    return found


def _at_limit(
    data: Incomplete, basis: Basis, found: Ascent, settings: Settings, exact: Settings, ended: bool = False
) -> Ascent:
    """Take fitted counts that went to 0 as 0, as long as there are any; `ended` where nothing rises any more."""
    while (limit := _on_boundary(data, basis, found, settings, exact, ended)) is not None:
        found = limit
    return found


def _relative(observed: Observed, q: FloatArray) -> FloatArray:
    """Return fitted counts relative to the base measure: what an offset made small did not go to 0."""
    return np.asarray(observed.total * q / np.exp(observed.log_base - observed.log_base.max()))


def _ascended(
    data: Incomplete,
    basis: Basis,
    fit: Decomposition,
    settings: Settings,
    exact: Settings,
    gone: float = 0.0,
    most: int = MOST_STEPS,
) -> Ascent:
    """Go on from a fit, on the cells to which it gives probability, until a fitted count is below `gone`."""
    observed, columns = _on_face(data, fit)
    path, best, idle = list[float](), np.inf, 0
    for left in range(most, -1, -1):
        q = observed.at(fit.theta)
        path.append(observed.value(q))
        residual = observed.residual(q)
        idle = idle + 1 if residual > BETTER * best and path[-1] <= path[-2] + blur(path[-1]) else 0
        best = min(best, residual)
        if residual <= settings.tol or idle == PATIENCE or _relative(observed, q).min() < gone or not left:
            break
        theta, q = _newton(observed, fit.theta, q, columns)
        vanishing = fit.n_vanishing
        fit = fit_on(data.observation(observed.cells, observed.completed(q)), basis, exact, start=theta)
        if fit.n_vanishing != vanishing:  # its theta is that of the cells which are left
            observed, columns = _on_face(data, fit)
    return Ascent(fit, observed, q, residual, tuple(path))


def _on_face(data: Incomplete, fit: Decomposition) -> tuple[Observed, IntArray]:
    """Return the likelihood on the cells to which a fit gives probability, and the parameters independent there."""
    columns = independent(fit.model.on_face(fit.alive))
    return Observed.of(data.table, fit.model, fit.alive), columns


def _on_boundary(
    data: Incomplete, basis: Basis, found: Ascent, settings: Settings, exact: Settings, ended: bool
) -> Ascent | None:
    """Take fitted counts that went to 0 as 0, so that the limit is exact; ``None`` where none do.

    It is the limit if cells vanish from the fit without them, and the likelihood is no lower there.
    """
    ended = ended or found.residual <= settings.tol  # on the way, counts that are small may rise again
    small = found.observed.total * found.q < NOTHING if ended else _relative(found.observed, found.q) < GONE
    if not small.any():
        return None
    kept = np.where(small, 0.0, found.q)
    if not np.isfinite(found.observed.value(kept)):
        return None  # some row that was seen has small fitted counts only
    fit = fit_on(data.observation(found.observed.cells, found.observed.completed(kept)), basis, exact)
    if fit.n_vanishing == found.fit.n_vanishing:
        return None
    limit = _ascended(data, basis, fit, settings, exact, gone=GONE)
    if not limit.path[-1] >= found.path[-1] - blur(found.path[-1]):
        return None
    return replace(limit, path=(*found.path, limit.path[-1]))


def _newton(observed: Observed, theta: FloatArray, q: FloatArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """Take Newton's step for the likelihood of what was observed, shortened if need be; none where it does not rise.

    Along axes of negative curvature, where the likelihood is not concave, the step goes up as well. Three lengths are
    tried here, not by `solvers.linesearch`, which is for convex objectives.
    """
    complete, missing = observed.complete_information(q), observed.missing_information(q)
    own = np.ix_(columns, columns)
    try:
        shares, axes = eigh((complete - missing)[own], complete[own])
    except np.linalg.LinAlgError:
        return theta, q
    slopes = axes.T @ observed.gradient(q)[columns]
    direction = np.zeros_like(theta)
    direction[columns] = axes @ (slopes / np.maximum(np.abs(shares), FLATTEST))
    height, residual = observed.value(q), observed.residual(q)
    for length in LENGTHS:
        following = theta + length * direction
        there = observed.at(following)
        if not np.isfinite(there).all():
            continue
        rise = observed.value(there) - height
        # near the top only the gradient tells better from worse
        if rise > blur(height) or (rise >= -blur(height) and observed.residual(there) < residual):
            return following, there
    return theta, q


def blur(log_likelihood: float) -> float:
    """Return by how much two sums for the same log-likelihood may differ by rounding."""
    return 8 * float(np.finfo(np.float64).eps) * abs(log_likelihood)
