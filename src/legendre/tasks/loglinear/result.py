"""`LogLinear`: a fitted log-linear model, as a statistician reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidQuery, InvalidSetting
from legendre.core.text import Columns, NamedValues, Table, shortened
from legendre.data.observation import Observation
from legendre.fitting.fit import fit_recipe, warn_if_not_converged
from legendre.fitting.plan import Settings
from legendre.results.base import Storable
from legendre.results.decomposition import Decomposition
from legendre.results.inference.likelihood_ratio import LikelihoodRatio, likelihood_ratio
from legendre.results.inference.printout import tested
from legendre.results.inference.result import Inference
from legendre.results.plots.plots import FitPlots
from legendre.solvers.status import Status
from legendre.tasks.loglinear.choice import Criterion, Direction, Kind, Move, Terms, added, dropped, stepped
from legendre.tasks.loglinear.formula import Model, Term, read_formula, updated
from legendre.tasks.loglinear.functions import LOST, check_used, checked_features
from legendre.tasks.loglinear.terms import bracketed, formula_of, generators, hierarchical_model, written_out
from legendre.tasks.loglinear.view import InferenceView

ROWS = 30  # coefficients that a summary prints


@dataclass(frozen=True, eq=False, repr=False)
class LogLinear(InferenceView, Storable):
    """A log-linear model fitted to a contingency table: made by `loglinear`.

    Attributes
    ----------
    inference
        Tests of fit, standard errors and residuals; `fit` is its decomposition.
    formula, generators
        The model as a formula, and by its largest terms.
    g2, x2, df, g2_p_value, x2_p_value, aic, bic, log_likelihood
        As in `Inference`. Degrees of freedom are counted by rank, on the cells that have positive means.
    path
        For a model that `step` chose, the moves that led to it.

    See Also
    --------
    loglinear : Fit one.
    anova : Compare several.
    legendre.results.Inference : Tests of fit and residuals.

    Examples
    --------
    >>> import legendre as ld
    >>> m = ld.loglinear(ld.datasets.drug_use(), "[AC][AM][CM]")
    >>> round(m.g2, 3), m.df, m.formula
    (0.374, 1, 'alcohol*cigarette + alcohol*marijuana + cigarette*marijuana')
    """

    _stored: ClassVar[tuple[str, ...]] = ("inference", "formula", "hierarchical", "_feature_names")
    inference: Inference
    model: Model
    names: tuple[str, ...]
    hierarchical: bool = True
    settings: Settings = field(default_factory=Settings)
    path: tuple[Move, ...] = ()

    @property
    def fit(self) -> Decomposition:
        """The decomposition that this is a view of."""
        return self.inference.fit

    @property
    def terms(self) -> frozenset[Term]:
        """The terms of the model, sets of names."""
        return self.model.terms

    @property
    def formula(self) -> str:
        """The model as a formula, which `loglinear` reads."""
        return formula_of(self.model, self.names, hierarchical=self.hierarchical)

    @property
    def _feature_names(self) -> tuple[str, ...]:
        return tuple(self.features)

    @classmethod
    def _restore(cls, inference: Inference, formula: str, hierarchical: bool, _feature_names: tuple[str, ...]) -> Self:
        """Make the model of what a file holds; features of the caller's own are not in it, but for their names."""
        names = tuple(inference.fit.labels.mode(k) for k in range(len(inference.fit.shape)))
        model = read_formula(formula, names, dict.fromkeys(_feature_names, LOST))
        return cls(inference, hierarchical_model(model) if hierarchical else model, names, hierarchical)

    @property
    def generators(self) -> list[tuple[str, ...]]:
        """The largest terms: the margins that the fit has in common with the table."""
        return generators(self.terms, self.names)

    @property
    def plot(self) -> FitPlots:
        """Pictures: ``m.plot.mosaic()``, ``.odds()``, ``.residuals()``, ..."""
        return replace(self.fit.plot, tests=self.inference)

    def fitted(self) -> Any:
        """Return the fitted counts, in the form of the table."""
        return self.fit.tensor()

    def residuals(self, kind: str = "pearson") -> Any:
        """Return "pearson", "deviance" or "adjusted" residuals, in the form of the table."""
        return self.inference.residuals(kind)

    @property
    def features(self) -> dict[str, Any]:
        """The features of the caller's own that the model has, by name."""
        return {term.name: term.feature for term in self.model.functions if term.feature is not None}

    def update(self, formula: str | Sequence[Any], *, features: Mapping[str, Any] | None = None) -> LogLinear:
        """Fit another model to the same table; a dot, or nothing before + or -, stands for this model, as in R.

        Features of your own that the model has keep their names; `features` adds more of them.

        Examples
        --------
        >>> import legendre as ld
        >>> m = ld.loglinear(ld.datasets.drug_use(), ".^2")
        >>> m.update("- alcohol:marijuana").df, m.update(". ~ . - alcohol:marijuana").df, m.update("[AC][M]").df
        (2, 2, 3)
        """
        more = checked_features(features, self.names)
        model = updated(self.formula, formula, self.names, self.features | more)
        check_used(more, model.functions, formula)
        return self.refitted(model)

    def refitted(self, model: Model) -> LogLinear:
        """Fit another model to the same table."""
        if self.fit.data is None:
            raise InvalidSetting("the table is not at hand (this model was loaded from a file); fit it anew.")
        return fitted(self.fit.data, model, self.names, self.hierarchical, self.settings)

    def against(self, large: LogLinear) -> LikelihoodRatio:
        """Test this model against a larger one of the same table that contains it."""
        self.check_alike(large)
        return likelihood_ratio(self.fit, large.fit)

    def check_alike(self, other: LogLinear) -> None:
        """Refuse to compare models of different variables, or of rows that were read in different ways."""
        both = f"{self.formula} and {other.formula}"
        if type(self) is not type(other):
            raise InvalidQuery(f"{both}: for one of these models rows that lack values were used, for the other not.")
        if self.names != other.names:
            hint = "of the same table; of a data frame name the same variables for both: variables=[...]"
            named = f"{', '.join(self.names)} and {', '.join(other.names)}"
            raise InvalidQuery(f"{both} are models of different variables, {named}. Compare models {hint}.")

    def same_table(self, other: LogLinear) -> bool:
        """Whether another model is one of the same counts of the same variables."""
        if self.names != other.names or self.fit.shape != other.fit.shape or type(self) is not type(other):
            return False
        counts, others = (m.inference.counts.grid(m.fit.shape) for m in (self, other))
        return bool((counts == others).all())

    def drop1(self) -> Terms:
        """Leave out each term in turn, unless another term contains it, to see how much worse the model fits.

        Examples
        --------
        >>> import legendre as ld
        >>> print(ld.loglinear(ld.datasets.drug_use(), ".^2").drop1())
        without              df        G2      AIC       LRT  on df       p
        ------------------------------------------------------------------------
        nothing               1    0.3740   63.417
        alcohol:cigarette     2  187.7543  248.798  187.3803      1  <2e-16  ***
        alcohol:marijuana     2   92.0184  153.062   91.6444      1  <2e-16  ***
        cigarette:marijuana   2  497.3693  558.413  496.9953      1  <2e-16  ***
        """
        return dropped(self)

    def add1(self, scope: str | Sequence[Any] | None = None) -> Terms:
        """Compare the model with those that have one more term of a scope, by default of all interactions.

        A term is tried if all terms that it contains are in the model.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.loglinear(ld.datasets.drug_use(), "[AC][AM]").add1().names
        ('cigarette:marijuana',)
        """
        return added(self, scope)

    def step(
        self,
        criterion: Criterion = "aic",
        *,
        direction: Direction = "both",
        type: Kind = "hierarchical",  # noqa: A002, the word that gRim uses
        scope: str | Sequence[Any] | None = None,
    ) -> LogLinear:
        """Add or leave out one term after the other as long as that lowers a criterion; `path` lists the steps.

        Parameters
        ----------
        criterion
            "aic", "bic", or a number: what a parameter costs.
        direction
            "both", "forward" (terms are added) or "backward" (they are left out).
        type
            "hierarchical": single terms. "decomposable": edges of a graph without long cycles, whose cliques are the
            generators; all fits are then in closed form.
        scope
            The largest model, by default the saturated one.

        Examples
        --------
        >>> import legendre as ld
        >>> chosen = ld.loglinear(ld.datasets.drug_use(), ".^3").step("bic")
        >>> chosen.formula
        'alcohol*cigarette + alcohol*marijuana + cigarette*marijuana'
        >>> [(move.action, move.term) for move in chosen.path]
        [('drop', 'alcohol:cigarette:marijuana')]
        """
        return stepped(self, criterion, direction, type, scope)

    def tables(self, rows: int = ROWS) -> list[Table]:
        """List the tests of fit, then the coefficients."""
        if not is_whole(rows, 1):
            raise InvalidQuery(f"summary(rows={rows!r}): rows must be an integer >= 1.")
        coef = self.coef().table()
        left = len(coef.rows) - 1 - rows
        if left > 0:
            notes = [f"... and {left:,} more: coef() has them all", *coef.notes]
            coef = Columns("", coef.rows[: rows + 1], coef.sides, ruled=True, notes=notes)
        return [self._head(), coef]

    def summary(self, rows: int = ROWS) -> str:
        """Return tests of fit and coefficients as text."""
        return "\n\n".join(table.text() for table in self.tables(rows))

    def __repr__(self) -> str:
        return self._head().text()

    def _head(self) -> NamedValues:
        labels = self.fit.labels
        modes = ", ".join(f"{labels.mode(k)} ({n})" for k, n in enumerate(labels.shape))
        said = [("table", f"{shortened(modes, 160)}, N = {self.fit.total:.0f}"), *self._tests()]
        written = bracketed(self.terms, self.names) if self.hierarchical else self.formula
        functions = "".join(f" + {function}" for function in self.model.functions)
        absent = [name for name in self.names if not any(name in term for term in self.terms)]
        if absent and not self.model.functions:
            said.append(("note", f"not in the model, so that all levels have equal means: {', '.join(absent)}"))
        if self.inference.rank < self.fit.n_params:
            few = f"{self.inference.rank:.0f} of the {self.fit.n_params:,} parameters are independent"
            said.append(("note", f"{few}: those that depend on each other have no estimate of their own"))
        said += [("note", note) for note in (*self.inference.notes, *self.fit.origin.notes)]
        return NamedValues(f"Log-linear model {written}{functions if self.hierarchical else ''}", said)

    def _tests(self) -> list[tuple[str, str]]:
        """List the tests of fit, the criteria and how the fit ended."""
        tests = self.inference
        return [
            ("G2", tested(tests.g2, tests.df, tests.g2_p_value)),
            ("X2", tested(tests.x2, tests.df, tests.x2_p_value)),
            ("AIC", f"{tests.aic:.3f}"),
            ("BIC", f"{tests.bic:.3f}"),
            ("status", self._status()),
        ]

    def _status(self) -> str:
        if self.fit.status is Status.CONVERGED:
            return "the maximum likelihood estimate exists, and this is it"
        if self.fit.status is Status.AT_BOUNDARY:
            gone = self.fit.n_vanishing
            cells = "1 fitted count is" if gone == 1 else f"{gone:,} fitted counts are"
            return f"the maximum likelihood estimate does not exist; in the limit {cells} 0"
        return str(self.fit.status.value)


def fitted(
    data: Observation, model: Model, names: tuple[str, ...], hierarchical: bool, settings: Settings
) -> LogLinear:
    """Fit a model to a table that has been read."""
    whole, basis = written_out(model, data.labels, names, hierarchical=hierarchical)
    fit = warn_if_not_converged(fit_recipe(data, basis, settings), stacklevel=4)
    return LogLinear(fit.inference(), whole, names, hierarchical, settings)
