"""Estimates that are asked of counts: coefficients, contrasts and odds ratios, from weights to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import entries, is_real
from legendre.core.cells import frozen
from legendre.core.errors import InvalidQuery, unknown_name
from legendre.core.labels import Mode
from legendre.core.origin import rectangular
from legendre.core.types import FloatArray
from legendre.results.distribution import checked_cells
from legendre.results.inference.coding import Coding, Combinations, coefficients_of, combinations_of_cells
from legendre.results.inference.coefficients import Coefficients
from legendre.results.inference.contrasts import combined
from legendre.results.inference.odds import odds_ratios
from legendre.results.inference.wald import Information

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


class Estimates:
    """What an inference estimates beside theta: coefficients as R has them, contrasts, odds ratios."""

    if TYPE_CHECKING:  # a dataclass has these

        @property
        def fit(self) -> Decomposition:
            """The fit."""

        @property
        def information(self) -> Information:
            """The covariance of independent parameters."""

    def coef(
        self,
        contrasts: Coding = "treatment",
        *,
        reference: Mapping[Any, Any] | None = None,
        exp: bool = False,
        level: float = 0.95,
    ) -> Coefficients:
        """Return the constant and the coefficients of the log-linear model, as R's ``glm(family = poisson)`` does.

        Parameters
        ----------
        contrasts
            "treatment": against a reference level of each variable. "sum": against the mean over its levels. "local":
            each level against the one before, which is theta itself.
        reference
            For treatment contrasts the reference level of some variables; of the others it is the first.
        exp
            Print factors, ``exp(estimate)``: of interactions of two variables these are odds ratios.
        level
            Of the intervals.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 19]], ld.full()).inference()
        >>> round(tests.coef(exp=True)["mode 0[1]:mode 1[1]"], 4), 18 * 19 / (7 * 6)
        (8.1429, 8.142857142857142)
        >>> tests.coef("sum").estimate.round(4).tolist()
        [2.3931, 0.025, -0.0521, 0.5243]
        """
        return estimated(self.fit, self.information, coefficients_of(self.fit, contrasts, reference), level, exp=exp)

    def contrast(
        self,
        weights: ArrayLike | Mapping[str, float],
        cells: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        exp: bool = False,
        level: float = 0.95,
    ) -> Coefficients:
        """Estimate combinations of parameters; those that the counts do not determine say so.

        Parameters
        ----------
        weights
            A row for each combination: weights of theta; with `cells` weights of the logarithms of their means. Or one
            combination of coefficients of `coef` by their names, ``{"mode 0[1]": 1, "mode 0[2]": -1}``.
        cells
            Cells, c x N.
        names
            What the combinations are called.
        exp, level
            As in `coef`.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 0]], ld.full()).inference()
        >>> odds = tests.contrast([[1, -1]], [[0, 0], [1, 0]], names=["first column"])
        >>> odds.estimate.round(4).tolist(), odds.standard_error.round(4).tolist()
        ([1.0986], [0.4714])
        >>> tests.contrast([[0, 0, 1]]).notes
        ('infinite: it needs cells that have mean 0 in the maximum likelihood estimate',)
        """
        return estimated(
            self.fit,
            self.information,
            asked_combinations(self.fit, weights, cells, names),
            level,
            exp=exp,
            what="contrast",
        )

    def odds(
        self,
        first: Mode,
        second: Mode,
        given: Mapping[Any, Any] | None = None,
        *,
        contrasts: Literal["local", "treatment"] = "local",
        reference: Mapping[Any, Any] | None = None,
        level: float = 0.95,
    ) -> Coefficients:
        """Return the odds ratios of two variables under the model, with their intervals.

        Parameters
        ----------
        first, second
            The variables, by name or number.
        given
            Levels of other variables. Where the odds ratios depend on variables that are not given, they are listed for
            each of their levels.
        contrasts, reference
            "local": of neighbouring levels. "treatment": against reference levels, by default the first.
        level
            Of the intervals.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 19]], ld.full()).inference()
        >>> print(tests.odds(0, 1))
        odds ratio               factor  s.e. of log     z        p   2.5 %   97.5 %
        --------------------------------------------------------------------------------
        mode 0[1/0]:mode 1[1/0]  8.1429       0.6463  3.24  0.00118  2.2942  28.9010  **
        p: *** < 0.001, ** < 0.01, * < 0.05
        """
        found = odds_ratios(self.fit, first, second, given, contrasts, reference)
        return estimated(self.fit, self.information, found, level, exp=True, what="odds ratio")


def check_level(level: float, asked: str) -> None:
    """Refuse what is no confidence level."""
    if not (is_real(level) and 0 < level < 1):
        raise InvalidQuery(f"{asked}(level={level!r}): the level is a number between 0 and 1, e.g. 0.95.")


def estimated(
    fit: Decomposition,
    info: Information,
    found: Combinations,
    level: float,
    *,
    exp: bool,
    what: str = "coefficient",
) -> Coefficients:
    """Estimate some combinations."""
    check_level(level, what)
    answer = combined(fit, info, found.weights, found.constants)
    values, errors = frozen(answer.estimates), frozen(answer.errors)
    return Coefficients(found.names, values, errors, answer.reasons, float(level), exp, what)


def asked_combinations(
    fit: Decomposition, weights: Any, cells: ArrayLike | None, names: Sequence[str] | None
) -> Combinations:
    """Read the combinations that a caller writes as weights."""
    if isinstance(weights, Mapping):
        return _of_coefficients(fit, weights, cells, names)
    size, of = (fit.n_params, "parameters") if cells is None else (len(np.atleast_2d(np.asarray(cells))), "cells")
    rows = np.atleast_2d(rectangular(weights, "weights", InvalidQuery))
    if rows.ndim != 2 or rows.dtype.kind not in "biuf" or rows.shape[1] != size or not np.isfinite(rows).all():
        raise InvalidQuery(
            f"contrast: weights have shape {rows.shape} and dtype {rows.dtype}; each row needs one finite number for "
            f"each of the {size} {of}."
        )
    rows = rows.astype(np.float64)
    called = _names(names, len(rows))
    if cells is None:
        return Combinations(called, rows, np.zeros(len(rows)))
    return combinations_of_cells(fit, called, fit.labels.places(checked_cells(np.asarray(cells), fit.shape)), rows)


def _of_coefficients(fit: Decomposition, weights: Mapping[Any, Any], cells: Any, names: Any) -> Combinations:
    if cells is not None:
        raise InvalidQuery("contrast: weights by name are of coefficients, so that cells have no meaning.")
    every = coefficients_of(fit, "treatment", None)
    row: FloatArray = np.zeros(len(every.names))
    for name, weight in weights.items():
        if name not in every.names:
            raise InvalidQuery(f"contrast: {unknown_name('coefficient', str(name), every.names)}")
        if not is_real(weight):
            raise InvalidQuery(f"contrast: the weight of {name!r} is {weight!r}; it must be a number.")
        row[every.names.index(name)] = float(weight)
    said = " ".join(f"{'-' if w < 0 else '+'} {_times(abs(w))}{name}" for name, w in weights.items())
    called = (said.removeprefix("+ "),) if names is None else _names(names, 1)
    return Combinations(called, (row @ every.weights)[None], np.array([row @ every.constants]))


def _times(weight: float) -> str:
    return "" if weight == 1 else f"{weight:g} "


def _names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"contrast {i + 1}" for i in range(n)) if n > 1 else ("contrast",)
    listed = entries(names)
    if listed is None or len(listed) != n:
        raise InvalidQuery(f"contrast: names={names!r}; give one name for each of the {n} combinations.")
    return tuple(map(str, listed))
