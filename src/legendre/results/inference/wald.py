"""Estimates with standard errors: the covariance of theta, combinations of parameters, and tables of them.

The covariance is the inverse Fisher matrix over N, where theta is identified. At the boundary theta itself runs to
infinity, but many combinations of it stay finite: all those that can be written with the cells that keep probability.
Of the others some go to plus or minus infinity along every path to the limit; the rest have no limit at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import check_number
from legendre.core.cells import frozen
from legendre.core.errors import InvalidQuery, unknown_name
from legendre.core.memory import size_name
from legendre.core.sums.linalg import factorise, limit_blas
from legendre.core.text import Columns
from legendre.core.types import FloatArray, IntArray
from legendre.data.observation import beyond_memory
from legendre.engines.choose import check_fisher, engine_for
from legendre.model.model import Cliques
from legendre.results.inference.coding import Combinations, log_means
from legendre.results.inference.printout import LEGEND, Printed, p_text, stars, to_frame
from legendre.solvers.structure.faces import diverging, feature_rows, open_directions
from legendre.solvers.structure.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

OPEN = "not identified: other values, with others changed as well, give the same Q"
INFINITE = "runs to infinity along fit.recession: the minimum is not attained"


@dataclass(frozen=True, eq=False)
class Information:
    """The covariance of the parameters that are identified, and why others have none."""

    columns: IntArray  # a maximal independent set of parameters on the cells with probability; the others are held at 0
    sigma: FloatArray  # the covariance of these
    reasons: tuple[str, ...]  # for each parameter of B why it has no standard error; empty where it has one
    open: FloatArray  # directions in theta, m x |B|, that change Q on none of these cells: theta is known up to them

    def covariance(self) -> FloatArray:
        """Covariance of all of theta; NaN in rows and columns of parameters that are not identified."""
        out = np.full((len(self.reasons),) * 2, np.nan)
        chosen = np.array([not self.reasons[i] for i in self.columns], dtype=np.bool_)
        at = self.columns[chosen]
        out[np.ix_(at, at)] = self.sigma[np.ix_(chosen, chosen)]
        return out


def information(fit: Decomposition, missing: FloatArray | None = None) -> Information:
    """Invert the Fisher matrix on the face; find which parameters the face leaves open.

    `missing` is information that the data lack (per case, |B| x |B|): rows without a value of some variables.
    """
    unlimited = "Tests of fit and Pearson or deviance residuals have no such limit."
    check_fisher(fit.n_params, "standard errors need", unlimited)
    model = fit.model.on_face(fit._alive)
    columns, free = independent(model), np.ones(fit.n_params, dtype=np.bool_)
    directions = np.empty((0, fit.n_params))
    if len(columns) < fit.n_params:
        directions = open_directions(model, columns)
        free = ~(directions != 0).any(axis=0)
    engine = engine_for(model)
    # the matrix of all parameters: scaling gives dependent ones values of their own
    fisher = engine.fisher(engine.at(fit.theta))
    fisher = fisher if missing is None else fisher - missing
    with limit_blas(fit.n_params):
        factor = factorise(fisher[np.ix_(columns, columns)], model.n_summed)
        sigma = factor.solve(np.eye(len(columns))) / fit.total
    # the variance of what the factor left out is beyond float64: reported as not identified
    beyond = np.delete(columns, factor.columns)
    free[beyond] = False
    directions = np.concatenate([directions, np.eye(fit.n_params)[beyond]])
    reasons = np.where(free, "", np.where(diverging(fit.recession), INFINITE, OPEN))
    return Information(columns, (sigma + sigma.T) / 2, tuple(map(str, reasons)), directions)


def leverages(fit: Decomposition, info: Information, boxes: IntArray, entries: int = 1 << 22) -> FloatArray:
    """``h_v / mu_v`` of merged cells (k x N): the diagonal of the regression's hat matrix, per unit of the mean.

    ``1 / N + (z_v - eta)' sigma (z_v - eta)``, z_v being the row of zeta at v: the variance of ``log mu_v``. At most
    so many `entries` of zeta are formed at a time.
    """
    model, eta = fit.model.with_columns(info.columns), fit.eta[info.columns]
    out = np.empty(len(boxes))
    step = max(1, entries // max(1, len(info.columns)))
    for start in range(0, len(boxes), step):
        centred = feature_rows(model, boxes[start : start + step]) - eta
        out[start : start + step] = 1.0 / fit.total + np.einsum("ij,ij->i", centred @ info.sigma, centred)
    return out


# --- combinations ----------------------------------------------------------------------------------------------------


def estimate(
    tests: Inference, asked: Combinations, confidence: float, *, exp: bool, what: str, profile: bool = False
) -> Coefficients:
    """Estimate combinations of theta and of the constant ``log N - psi``.

    Estimates are infinite, NaN or known beforehand where the notes say why.
    """
    check_number(confidence, f"{what}: confidence", above=0, below=1, error=InvalidQuery)
    fit, info, (names, weights, constants, offsets) = tests.fit, tests.information, asked
    values = constants * (float(np.log(fit.total)) - fit.psi) + weights @ fit.theta + offsets
    errors = np.sqrt(np.maximum(np.diagonal(covariance(tests, asked)), 0.0))
    fixed = (weights == 0).all(axis=1) & (constants == 0)
    notes = np.where(fixed, "fixed by the model, no parameter of which enters it", "").astype(object)
    for i, sign in _diverging(fit, info.open, weights, constants) if len(info.open) else ():
        values[i], errors[i] = (sign * np.inf if sign else np.nan), np.nan
        notes[i] = (
            "infinite, because of fitted zeros"
            if sign
            else "not estimable: the cells with positive means do not determine it"
        )
    found = Coefficients(names, frozen(values), frozen(errors), tuple(notes), float(confidence), exp, what)
    return replace(found, ends=_profile(tests, asked, found)) if profile else found


def covariance(tests: Inference, asked: Combinations) -> FloatArray:
    """Compute the covariance of combinations."""
    fit, info, (_, weights, constants, _) = tests.fit, tests.information, asked
    centred = (weights - constants[:, None] * fit.eta)[:, info.columns]
    return tests.scale * (np.outer(constants, constants) / fit.total + centred @ info.sigma @ centred.T)


def _profile(tests: Inference, asked: Combinations, found: Coefficients, most: float = 50.0) -> FloatArray:
    """Find where the likelihood, maximised over all other coefficients, has fallen by as much as the level allows.

    An end that is over `most` standard errors away is infinite.
    """
    from scipy.optimize import brentq

    fit, (_, weights, constants, _) = tests.fit, asked
    if tests.missing is not None or any(found.notes) or fit._alive is not None or beyond_memory(fit.shape) is not None:
        raise InvalidQuery(
            "profile likelihoods need a maximum likelihood estimate of every coefficient, complete rows, and a table "
            "that fits in memory. Leave profile out for Wald intervals."
        )
    cells = fit.model.support.cells()
    _, features, ones, offsets = log_means(fit, (), cells)
    design = np.column_stack([ones, features]) @ np.linalg.inv(np.column_stack([constants, weights]))
    counts, best = tests.counts.at(cells), found.logs
    fall = float(half_width(np.ones(1), found.confidence)[0]) ** 2 * tests.scale / 2.0
    ends = np.empty((len(best), 2))
    for j, error in enumerate(found.standard_error.tolist()):
        where = (np.delete(design, j, axis=1), design[:, j], offsets, counts, np.delete(best, j))
        lowest = _profile_likelihood(float(best[j]), *where) - fall
        for side, sign in enumerate((-1.0, 1.0)):
            tried = (float(best[j]) + sign * step * error for step in (3.0, 6.0, 12.0, 25.0, most))
            far = next((x for x in tried if _profile_likelihood(x, *where) < lowest), None)
            ends[j, side] = sign * np.inf
            if far is not None:
                ends[j, side] = brentq(_profile_likelihood, float(best[j]), far, (*where, lowest), xtol=1e-8)
    return ends


def _profile_likelihood(
    value: float,
    others: FloatArray,
    own: FloatArray,
    offsets: FloatArray,
    counts: FloatArray,
    b: FloatArray,
    less: float = 0.0,
) -> float:
    """Maximise the Poisson log-likelihood over all coefficients but one, which has some value.

    Newton steps, from b, that change no log mean by more than 2.
    """
    fixed = value * own + offsets
    for _ in range(200):
        mu = np.exp(others @ b + fixed)
        slope = others.T @ (counts - mu)
        step = np.linalg.lstsq(others.T @ (mu[:, None] * others), slope, rcond=None)[0]
        if slope @ step < 1e-12:
            break
        b = b + step / max(1.0, np.abs(others @ step).max() / 2.0)
    return float(counts @ (others @ b + fixed) - mu.sum()) - less


def _diverging(
    fit: Decomposition, directions: FloatArray, weights: FloatArray, constants: FloatArray
) -> Iterator[tuple[int, int]]:
    """Find the combinations that change along some direction in theta that keeps Q where it has probability.

    With each comes the sign with which it diverges along every such direction that lowers the vanishing cells; 0 if
    the sign differs from direction to direction.
    """
    from scipy.optimize import linprog

    space = fit.model
    if isinstance(space, Cliques) and space.n_cells > limits.LARGEST_GRID:
        raise InvalidQuery(
            "some cells vanish, and which combinations of parameters stay finite is looked for in all of "
            f"{size_name(space.n_cells)} merged cells, where at most {limits.LARGEST_GRID:,} are looked through. "
            "Standard errors of the parameters that do are in standard_errors; elsewhere merge levels."
        )
    alive = fit.model.alive if fit._alive is None else space.on_grid(fit._alive)
    gone = fit.model.alive & ~alive
    grids = [space.below(direction) for direction in directions]
    level = np.array([grid[alive][0] for grid in grids])  # by how much each raises all cells with probability
    falls = np.stack([grid[gone] - rise for grid, rise in zip(grids, level, strict=True)], axis=1)
    falls = np.unique(falls.round(9), axis=0)
    steepness = weights @ fit.recession - constants * float(space.below(fit.recession)[alive].max())
    changes = weights @ directions.T - constants[:, None] * level
    size = np.abs(weights) @ np.abs(directions.T) + np.abs(constants)[:, None] * np.abs(level)
    for i in np.flatnonzero((np.abs(changes) > 1e-8 * np.maximum(size, 1.0)).any(axis=1)).tolist():  # beyond rounding
        zero = 1e-6  # what a linear program reports of a change that is 0
        if abs(steepness[i]) < zero or not len(falls):
            yield i, 0
            continue
        sign = 1 if steepness[i] > 0 else -1
        found = linprog(sign * changes[i], A_ub=falls, b_ub=np.zeros(len(falls)), bounds=(-1.0, 1.0), method="highs")
        yield i, sign if found.fun is not None and found.fun > -zero else 0


@dataclass(frozen=True, eq=False, repr=False)
class Coefficients(Printed):
    """Estimates by name, with standard errors, Wald tests and intervals.

    Attributes
    ----------
    names
        What each row is about.
    estimate, standard_error
        An estimate that diverges is infinite, one that the counts do not determine is NaN; neither has a standard
        error, and `notes` says why. One that the model fixes, such as the odds ratio 1 of two variables that no term
        joins, has the standard error 0 and no test.
    z, p_value
        Wald tests of an estimate of 0.
    lower, upper
        Ends of the intervals, which hold with probability `confidence`: Wald's, or those of the profile likelihood.
    exp, logs
        True: estimates and intervals are factors, and `standard_error` is that of their logarithms, `logs`.

    Examples
    --------
    >>> import legendre as ld
    >>> table = ld.decompose([[18, 7], [6, 19]], ld.full()).inference().coef()
    >>> print(table)
    coefficient          estimate    s.e.      z        p    2.5 %   97.5 %
    ----------------------------------------------------------------------------
    (intercept)            2.8904  0.2357  12.26   <2e-16   2.4284   3.3523  ***
    mode 0[1]             -1.0986  0.4714  -2.33   0.0198  -2.0225  -0.1747  *
    mode 1[1]             -0.9445  0.4454  -2.12    0.034  -1.8175  -0.0714  *
    mode 0[1]:mode 1[1]    2.0971  0.6463   3.24  0.00118   0.8304   3.3639  **
    p: *** < 0.001, ** < 0.01, * < 0.05
    """

    names: tuple[str, ...]
    logs: FloatArray
    standard_error: FloatArray
    notes: tuple[str, ...]
    confidence: float = 0.95
    exp: bool = False
    what: str = "coefficient"
    ends: FloatArray | None = None  # of profile-likelihood intervals, as logarithms

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> float:
        """Return one estimate by its name."""
        if name not in self.names:
            raise InvalidQuery(unknown_name(self.what, str(name), self.names))
        return float(self.estimate[self.names.index(name)])

    @property
    def estimate(self) -> FloatArray:
        """The estimates: factors where `exp` says so."""
        return self._scale(self.logs)

    @cached_property
    def z(self) -> FloatArray:
        """Wald statistics: estimates over their standard errors; NaN where there are none."""
        return frozen(self.logs / np.where(self.standard_error > 0, self.standard_error, np.nan))

    @cached_property
    def p_value(self) -> FloatArray:
        """Two-sided p-values of `z`."""
        return frozen(two_sided_p(self.z))

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the intervals."""
        half = half_width(self.standard_error, self.confidence)
        return self._scale(self.logs - half if self.ends is None else self.ends[:, 0])

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the intervals."""
        half = half_width(self.standard_error, self.confidence)
        return self._scale(self.logs + half if self.ends is None else self.ends[:, 1])

    def _scale(self, logs: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(logs) if self.exp else logs

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each name."""
        columns = {"estimate": self.estimate, "standard_error": self.standard_error, "z": self.z}
        columns |= {"p_value": self.p_value, "lower": self.lower, "upper": self.upper}
        return to_frame({**columns, "note": list(self.notes)}, self.names, self.what)

    def table(self, rows: int | None = None, more: int = 0) -> Columns:
        """Lay the first `rows` out for printing; there are `more` of them elsewhere."""
        tail = 50.0 * (1.0 - self.confidence)
        title = "factor" if self.exp and self.what != "mean" else "estimate"
        head = (self.what, title, "s.e. of log" if self.exp else "s.e.", "z", "p")
        lines: list[tuple[str, ...]] = [(*head, f"{tail:g} %", f"{100 - tail:g} %", "")]
        values = zip(self.estimate, self.standard_error, self.z, self.p_value, self.lower, self.upper, strict=True)
        for name, note, (value, error, z, p, lower, upper) in zip(self.names, self.notes, values, strict=True):
            tested = (_number(error), f"{z:.2f}", p_text(p), _number(lower), _number(upper), stars(p))
            lines.append((name, _number(value), *(("-",) * 5 + ("",) if note else tested)))
        reasons = dict.fromkeys(note for note in self.notes if note)
        legend, sides = [LEGEND], "<>>>>>><"
        if self.what == "mean":  # that a mean is 1 is no hypothesis
            lines, legend, sides = [(*line[:3], *line[5:7]) for line in lines], [], "<>>>>"
        shown = lines if rows is None else lines[: rows + 1]
        left = more + len(lines) - len(shown)
        notes = [f"... and {left:,} more"] * (left > 0)
        notes += [*legend, *(f"{self.notes.count(reason)} without s.e.: {reason}." for reason in reasons)]
        return Columns("", shown, sides, ruled=True, notes=notes)


def two_sided_p(z: FloatArray) -> FloatArray:
    """Return the probability that a normal variable is as far from 0."""
    from scipy.special import ndtr

    return 2.0 * np.asarray(ndtr(-np.abs(z)), dtype=np.float64)


def half_width(errors: FloatArray, confidence: float) -> FloatArray:
    """Return half the width of Wald intervals."""
    from scipy.special import ndtri

    return float(ndtri((1.0 + confidence) / 2.0)) * errors


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 1e5 or math.isinf(value) else f"{value:.4g}"
