"""A table of estimates with their standard errors: coefficients, contrasts, odds ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from legendre.core.cells import frozen
from legendre.core.errors import InvalidQuery, InvalidSetting, unknown_name
from legendre.core.text import Columns, fragment
from legendre.core.types import FloatArray
from legendre.results.inference.printout import LEGEND, shown, stars


@dataclass(frozen=True, eq=False, repr=False)
class Coefficients:
    """Estimates by name, with standard errors, Wald tests and intervals.

    Attributes
    ----------
    names
        What each row is about.
    estimate, standard_error
        On the logarithmic scale. An estimate that diverges is infinite, one that the counts do not determine is NaN;
        neither has a standard error, and `notes` says why. One that the model fixes, such as the odds ratio 1 of two
        variables that no term joins, has the standard error 0 and no test.
    z, p_value
        Wald tests of an estimate of 0.
    lower, upper
        Ends of the Wald intervals, which hold with probability `level`.
    exp
        True: estimates and intervals are printed as factors, ``exp(estimate)``.

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
    estimate: FloatArray
    standard_error: FloatArray
    notes: tuple[str, ...]
    level: float = 0.95
    exp: bool = False
    what: str = "coefficient"

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> float:
        """Return one estimate by its name, as a factor where `exp` says so."""
        if name not in self.names:
            raise InvalidQuery(unknown_name(self.what, str(name), self.names))
        return float(self.shown[self.names.index(name)])

    @property
    def shown(self) -> FloatArray:
        """The estimates as they are printed: factors where `exp` says so."""
        return _factor(self.estimate) if self.exp else self.estimate

    @cached_property
    def z(self) -> FloatArray:
        """Wald statistics: estimates over their standard errors."""
        return frozen(np.where(np.isnan(self.standard_error), np.nan, self.estimate / _positive(self.standard_error)))

    @cached_property
    def p_value(self) -> FloatArray:
        """Two-sided p-values of `z`."""
        from scipy.special import ndtr

        return frozen(2.0 * np.asarray(ndtr(-np.abs(self.z)), dtype=np.float64))

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the intervals."""
        return self._end(-1.0)

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the intervals."""
        return self._end(1.0)

    def _end(self, side: float) -> FloatArray:
        from scipy.special import ndtri

        end = self.estimate + side * float(ndtri((1.0 + self.level) / 2.0)) * self.standard_error
        return _factor(end) if self.exp else end

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each name."""
        if find_spec("pandas") is None:
            raise InvalidSetting(f"{self.what}s as a data frame need pandas. Install it with: pip install pandas")
        import pandas

        columns = {"estimate": self.shown, "standard_error": self.standard_error, "z": self.z}
        columns |= {"p_value": self.p_value, "lower": self.lower, "upper": self.upper}
        return pandas.DataFrame({**columns, "note": list(self.notes)}, index=pandas.Index(self.names, name=self.what))

    def table(self) -> Columns:
        """Lay the rows out for printing."""
        tail = 50.0 * (1.0 - self.level)
        head = (self.what, "factor" if self.exp else "estimate", "s.e. of log" if self.exp else "s.e.", "z", "p")
        rows = [(*head, f"{tail:g} %", f"{100 - tail:g} %", ""), *(self._row(i) for i in range(len(self)))]
        reasons = dict.fromkeys(note for note in self.notes if note)
        notes = [LEGEND, *(f"{self.notes.count(reason)} without s.e.: {reason}." for reason in reasons)]
        return Columns("", rows, "<>>>>>><", ruled=True, notes=notes)

    def _row(self, i: int) -> tuple[str, ...]:
        value = _number(self.shown[i])
        if self.notes[i]:
            return self.names[i], value, "-", "-", "-", "-", "-", ""
        p = float(self.p_value[i])
        ends = _number(self.lower[i]), _number(self.upper[i])
        return self.names[i], value, _number(self.standard_error[i]), f"{self.z[i]:.2f}", shown(p), *ends, stars(p)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return fragment([self.table()])


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 1e5 or math.isinf(value) else f"{value:.4g}"


def _factor(logs: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.exp(logs)


def _positive(errors: FloatArray) -> FloatArray:
    return np.where(errors > 0, errors, np.nan)
