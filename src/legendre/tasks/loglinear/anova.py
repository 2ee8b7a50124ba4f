"""`anova`: several models of one table, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from legendre.core.errors import InvalidQuery, InvalidSetting
from legendre.core.html import fragment
from legendre.core.text_table import Columns
from legendre.results.inference.likelihood_ratio import LikelihoodRatio
from legendre.results.inference.printout import shown, stars
from legendre.tasks.loglinear.result import LogLinear


@dataclass(frozen=True, eq=False, repr=False)
class Anova:
    """Models of one table, from the smallest to the largest, and tests of each against the one before.

    Attributes
    ----------
    models
        The models.
    tests
        For each model but the first its likelihood ratio against the one before: `statistic`, `df`, `p_value`. Empty
        where no tests were asked for.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.hair_eye_color()
    >>> found = ld.anova(*(ld.loglinear(X, f) for f in ("hair + eye + sex", "hair*eye + sex", ".^2")))
    >>> [round(test.statistic, 4) for test in found.tests], [test.df for test in found.tests]
    ([146.4436, 13.0953], [9, 6])
    """

    models: tuple[LogLinear, ...]
    tests: tuple[LikelihoodRatio, ...]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each model."""
        if find_spec("pandas") is None:
            raise InvalidSetting("to_frame() needs pandas. Install it with: pip install pandas")
        import pandas

        own = ("df", "g2", "g2_p_value", "aic", "bic")
        columns: dict[str, Any] = {name: [getattr(m, name) for m in self.models] for name in own}
        if self.tests:
            none = float("nan")
            columns["change_df"] = [0, *(test.df for test in self.tests)]
            columns["change_g2"] = [none, *(test.statistic for test in self.tests)]
            columns["change_p_value"] = [none, *(test.p_value for test in self.tests)]
        return pandas.DataFrame(columns, index=pandas.Index([m.formula for m in self.models], name="model"))

    def table(self) -> Columns:
        """Lay the rows out for printing."""
        head = ["#", "model", "df", "G2", "p of fit", "AIC", "BIC"]
        rows = [[*head, *(["LRT", "on df", "p", ""] if self.tests else [])]]
        for i, m in enumerate(self.models):
            row = [f"{i + 1}", m.formula, str(m.df), f"{m.g2:.4f}", shown(m.g2_p_value) if m.df else ""]
            row += [f"{m.aic:.3f}", f"{m.bic:.3f}"]
            if self.tests and i:
                test = self.tests[i - 1]
                p = test.p_value
                row += [f"{test.statistic:.4f}", str(test.df), *((shown(p), stars(p)) if test.df else ("", ""))]
            rows.append(row)
        notes = ["LRT: each model against the one above"] if self.tests else []
        return Columns("", rows, "<<>>>>>>>><" if self.tests else "<<>", ruled=True, notes=notes)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return fragment([self.table()])


def anova(*models: LogLinear, nested: bool = True) -> Anova:
    """Compare log-linear models of one table: deviances, criteria, and likelihood ratio tests where they are nested.

    Parameters
    ----------
        models
            Two models or more. Nested ones may come from small to large or from large to small.
        nested
            False: no tests, so that any models of one table may stand side by side.

    See Also
    --------
    loglinear : Fit the models.
    likelihood_ratio : The same for two decompositions.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.drug_use().toarray()
    >>> ld.anova(ld.loglinear(X, "[AC][BC]"), ld.loglinear(X, ".^2"))
    #  model            df        G2  p of fit      AIC      BIC       LRT  on df       p
    ------------------------------------------------------------------------------------------
    1  A*C + B*C         2  187.7543    <2e-16  248.798  283.179
    2  A*B + A*C + B*C   1    0.3740     0.541   63.417  103.529  187.3803      1  <2e-16  ***
    LRT: each model against the one above
    """
    if len(models) < 2:
        raise InvalidQuery(f"anova compares two models or more, got {len(models)}.")
    for model in models:
        if not isinstance(model, LogLinear):  # callers may pass anything
            raise InvalidQuery(f"anova compares models made by loglinear, got a {type(model).__name__}.")
    first, last = ((m.inference.rank, m.fit.n_params) for m in (models[0], models[-1]))
    ordered = models if first <= last else models[::-1]
    if not nested:
        for other in ordered[1:]:
            _check_same_table(ordered[0], other)
        return Anova(tuple(ordered), ())
    return Anova(tuple(ordered), tuple(_tested(small, large) for small, large in pairwise(ordered)))


def _tested(small: LogLinear, large: LogLinear) -> LikelihoodRatio:
    try:
        return small.against(large)
    except InvalidQuery as problem:
        if "nested" not in str(problem):
            raise
        raise InvalidQuery(
            f"anova: {small.formula} is not nested in {large.formula}, so that the difference of their deviances has "
            "no chi-square distribution. Compare AIC or BIC: anova(..., nested=False)."
        ) from None


def _check_same_table(one: LogLinear, other: LogLinear) -> None:
    if not one.same_table(other):
        raise InvalidQuery(f"anova: {one.formula} and {other.formula} are models of different tables.")
