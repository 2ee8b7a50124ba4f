"""Which terms does a model need: one left out, one added, one step after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from legendre.core.arguments import is_real
from legendre.core.errors import InvalidQuery, InvalidSetting
from legendre.core.text import Columns, fragment
from legendre.core.types import FloatArray
from legendre.results.inference.printout import shown, stars
from legendre.tasks.loglinear.formula import Model, Term, read_formula
from legendre.tasks.loglinear.functions import FunctionTerm
from legendre.tasks.loglinear.graphs import cliques_of, edges_of, neighbours
from legendre.tasks.loglinear.terms import closed, in_order, term_name

if TYPE_CHECKING:
    from legendre.tasks.loglinear.result import LogLinear

Criterion = Literal["aic", "bic"] | float
Direction = Literal["both", "forward", "backward"]
Kind = Literal["hierarchical", "decomposable"]
MOST_MOVES = 10_000  # steps after which a search gives up
BETTER = 1e-9  # a criterion that is lower by less is the same but for rounding


@dataclass(frozen=True)
class Move:
    """One step of a search: what was done, to which term, and what it changed.

    Attributes
    ----------
    action, term
        "add" or "drop", and the term.
    criterion, change
        The criterion of the model after the step, and by how much it changed.
    formula
        The model after the step.
    """

    action: Literal["add", "drop"]
    term: str
    criterion: float
    change: float
    formula: str


@dataclass(frozen=True, eq=False, repr=False)
class Terms:
    """What becomes of a model without, or with, each of some terms.

    Attributes
    ----------
    names
        The terms.
    models
        The model without, or with, each of them.
    df, g2, aic
        Of these models.
    lrt, lrt_df, p_value
        The likelihood ratio statistic against the model itself, its degrees of freedom and p-value.
    """

    base: LogLinear
    names: tuple[str, ...]
    models: tuple[LogLinear, ...]
    lrt: FloatArray
    lrt_df: tuple[int, ...]
    p_value: FloatArray
    what: str

    @property
    def df(self) -> tuple[int, ...]:
        """Degrees of freedom of each model."""
        return tuple(model.df for model in self.models)

    @property
    def g2(self) -> FloatArray:
        """The deviance of each model."""
        return np.array([model.g2 for model in self.models])

    @property
    def aic(self) -> FloatArray:
        """AIC of each model."""
        return np.array([model.aic for model in self.models])

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each term."""
        if find_spec("pandas") is None:
            raise InvalidSetting("to_frame() needs pandas. Install it with: pip install pandas")
        import pandas

        columns = {"df": self.df, "g2": self.g2, "aic": self.aic, "lrt": self.lrt, "lrt_df": self.lrt_df}
        return pandas.DataFrame({**columns, "p_value": self.p_value}, index=pandas.Index(self.names, name=self.what))

    def table(self) -> Columns:
        """Lay the rows out for printing."""
        base = self.base
        rows = [(self.what, "df", "G2", "AIC", "LRT", "on df", "p", "")]
        rows.append(("nothing", str(base.df), f"{base.g2:.4f}", f"{base.aic:.3f}", "", "", "", ""))
        for i, (name, m) in enumerate(zip(self.names, self.models, strict=True)):
            p, lrt, df = float(self.p_value[i]), float(self.lrt[i]), self.lrt_df[i]
            tested = (f"{lrt:.4f}", str(df), shown(p) if df else "", stars(p) if df else "")
            rows.append((name, str(m.df), f"{m.g2:.4f}", f"{m.aic:.3f}", *tested))
        return Columns("", rows, "<>>>>>><", ruled=True)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return fragment([self.table()])


def dropped(model: LogLinear) -> Terms:
    """Leave out each term that no other one contains, and each function."""
    _check_hierarchical(model, "drop1")
    found = [(term_name(term, model.names), smaller) for term, smaller in _without(model.model, model.names)]
    found += [(str(f), _less(model.model, f)) for f in model.model.functions]
    models = [model.refitted(smaller) for _, smaller in found]
    tests = [small.against(model) for small in models]
    return _terms(model, [name for name, _ in found], models, tests, "without")


def added(model: LogLinear, scope: str | Sequence[Any] | None) -> Terms:
    """Add each term of the scope whose parts are all there."""
    _check_hierarchical(model, "add1")
    largest = _scope(model, scope)
    found = [(term_name(term, model.names), larger) for term, larger in _with(model.model, largest, model.names)]
    models = [model.refitted(larger) for _, larger in found]
    tests = [model.against(large) for large in models]
    return _terms(model, [name for name, _ in found], models, tests, "with")


def _terms(model: LogLinear, names: list[str], models: list[LogLinear], tests: list[Any], what: str) -> Terms:
    lrt, p = np.array([test.statistic for test in tests]), np.array([test.p_value for test in tests])
    return Terms(model, tuple(names), tuple(models), lrt, tuple(test.df for test in tests), p, what)


def _check_hierarchical(model: LogLinear, asked: str) -> None:
    if not model.hierarchical:
        raise InvalidQuery(f"{asked} goes from one hierarchical model to the next; this one has hierarchical=False.")


def _scope(model: LogLinear, scope: Any) -> frozenset[Term] | None:
    """Return the terms that may be used; ``None`` is all interactions."""
    if scope is None:
        return None
    allowed = closed(read_formula(scope, model.names, model.features).terms)
    for term in in_order(model.terms - allowed, model.names)[:1]:
        raise InvalidQuery(f"the scope {scope!r} does not hold the model: {term_name(term, model.names)} is missing.")
    return allowed


def _without(model: Model, names: Sequence[str]) -> list[tuple[Term, Model]]:
    largest = [term for term in model.terms if not any(term < other for other in model.terms)]
    return [(term, replace(model, terms=model.terms - {term})) for term in in_order(largest, names)]


def _less(model: Model, function: FunctionTerm) -> Model:
    return replace(model, functions=tuple(f for f in model.functions if f != function))


def _with(model: Model, scope: frozenset[Term] | None, names: Sequence[str]) -> list[tuple[Term, Model]]:
    """List the terms that may come next: those whose parts with one variable less are all there."""
    found: set[Term] = {frozenset([name]) for name in names}
    for term in model.terms:
        found |= {term | {name} for name in names if name not in term}
    ready = [
        term
        for term in found - model.terms
        if all(frozenset(part) in model.terms for part in combinations(term, len(term) - 1) if part)
        and (scope is None or term in scope)
    ]
    return [(term, replace(model, terms=model.terms | {term})) for term in in_order(ready, names)]


# --- one step after the other ----------------------------------------------------------------------------------------


def stepped(model: LogLinear, criterion: Criterion, direction: Direction, kind: Kind, scope: Any) -> LogLinear:
    """Take the best step while it lowers the criterion; of equal ones the first in the order of the table."""
    _check_hierarchical(model, "step")
    for name, value, known in (("direction", direction, get_args(Direction)), ("type", kind, get_args(Kind))):
        if value not in known:
            raise InvalidQuery(f"step({name}={value!r}): it is one of {', '.join(map(repr, known))}.")
    price = _price(model, criterion)
    largest = _scope(model, scope)
    best, path = model, []
    for _ in range(MOST_MOVES):
        moves = [(action, name, best.refitted(other)) for action, name, other in _moves(best, direction, kind, largest)]
        own = _charged(best, price)
        changes = [_charged(other, price) - own for _, _, other in moves]
        if not changes or min(changes) >= -BETTER:
            break
        first = next(i for i, change in enumerate(changes) if change <= min(changes) + BETTER)
        action, name, best = moves[first]
        path.append(Move(action, name, own + changes[first], changes[first], best.formula))
    return replace(best, path=tuple(path))


def _price(model: LogLinear, criterion: Criterion) -> float:
    if criterion in ("aic", "bic"):
        return 2.0 if criterion == "aic" else float(np.log(model.fit.total))
    if not is_real(criterion) or not criterion >= 0:
        raise InvalidQuery(f'step(criterion={criterion!r}): it is "aic", "bic", or what a parameter costs, >= 0.')
    return float(criterion)


def _charged(model: LogLinear, price: float) -> float:
    """Return AIC with another price of a parameter."""
    return model.aic + (price - 2.0) * (model.inference.rank + 1.0)


def _moves(
    model: LogLinear, direction: Direction, kind: Kind, scope: frozenset[Term] | None
) -> Iterator[tuple[Literal["add", "drop"], str, Model]]:
    """List what may be done next."""
    if kind == "decomposable":
        yield from _edges(model, direction, scope)
        return
    if direction != "forward":
        for term, smaller in _without(model.model, model.names):
            yield "drop", term_name(term, model.names), smaller
    if direction != "backward":
        for term, larger in _with(model.model, scope, model.names):
            yield "add", term_name(term, model.names), larger


def _edges(
    model: LogLinear, direction: Direction, scope: frozenset[Term] | None
) -> Iterator[tuple[Literal["add", "drop"], str, Model]]:
    """List the edges whose change leaves the graph without long cycles."""
    graph = edges_of(model.terms)
    for name in model.names:
        if frozenset([name]) not in model.terms:
            raise InvalidQuery(
                f"step(type='decomposable'): the graph needs every variable, and {name} is not in the model."
            )
    if closed(cliques_of(graph, model.names)) != model.terms or model.model.functions:
        raise InvalidQuery(
            f"step(type='decomposable') begins with a model whose generators are the cliques of its graph; "
            f"{model.formula} is none."
        )
    for action, edge, other in neighbours(graph, model.names):
        if (direction == "forward" and action == "drop") or (direction == "backward" and action == "add"):
            continue
        terms = closed(cliques_of(other, model.names))
        if scope is None or terms <= scope:
            yield action, term_name(edge, model.names), Model(terms)
