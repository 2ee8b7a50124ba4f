"""Which terms does a model need: one left out, one added, one step after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from legendre.core.arguments import check_choice, check_number
from legendre.core.errors import InvalidQuery
from legendre.model.cliques.graph import clique_tree
from legendre.tasks.loglinear.anova import Anova, LikelihoodRatio, compare
from legendre.tasks.loglinear.formula import Formula, Term, close, read_formula

if TYPE_CHECKING:
    from legendre.tasks.loglinear.loglinear import LogLinear

Criterion = Literal["aic", "bic"] | float
Direction = Literal["both", "forward", "backward"]
Kind = Literal["hierarchical", "decomposable"]
Action = Literal["add", "drop"]


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

    action: Action
    term: str
    criterion: float
    change: float
    formula: str


def drop_terms(model: LogLinear) -> Anova:
    """Leave out each term that no other one contains, and each function."""
    _check_hierarchical(model, "drop1")
    own = model.model
    found = [(str(f), replace(own, functions=tuple(g for g in own.functions if g != f))) for f in own.functions]
    models = [(name, model.refit(other)) for name, other in _smaller(own) + found]
    return _tests(model, models, [compare(other, model) for _, other in models], "without")


def add_terms(model: LogLinear, scope: str | Sequence[Any] | None) -> Anova:
    """Add each term of the scope whose parts are all there."""
    _check_hierarchical(model, "add1")
    models = [(name, model.refit(other)) for name, other in _larger(model.model, _scope(model, scope))]
    return _tests(model, models, [compare(model, other) for _, other in models], "with")


def _tests(base: LogLinear, found: list[tuple[str, LogLinear]], tests: list[LikelihoodRatio], head: str) -> Anova:
    names, models = zip(("nothing", base), *found, strict=True)
    return Anova(models, tuple(tests), names, head)


def _check_hierarchical(model: LogLinear, asked: str) -> None:
    if not model.hierarchical:
        raise InvalidQuery(f"{asked} goes from one hierarchical model to the next; this one has hierarchical=False.")


def _scope(model: LogLinear, scope: Any) -> frozenset[Term] | None:
    """Return the terms that may be used; ``None`` is all interactions."""
    if scope is None:
        return None
    allowed = read_formula(scope, model.names, known=model.model.features).terms
    for term in model.model.order(model.model.terms - allowed)[:1]:
        raise InvalidQuery(f"the scope {scope!r} does not hold the model: {model.model.name(term)} is missing.")
    return allowed


def _smaller(model: Formula) -> list[tuple[str, Formula]]:
    """List the models without one of the largest terms, by its name."""
    largest = [term for term in model.terms if not any(term < other for other in model.terms)]
    return [(model.name(term), replace(model, terms=model.terms - {term})) for term in model.order(largest)]


def _larger(model: Formula, scope: frozenset[Term] | None) -> list[tuple[str, Formula]]:
    """List the models with one more term, whose parts with one variable less are all there."""
    found: set[Term] = {frozenset([name]) for name in model.names}
    for term in model.terms:
        found |= {term | {name} for name in model.names if name not in term}
    ready = [
        term
        for term in (found - model.terms if scope is None else (found - model.terms) & scope)
        if all(frozenset(part) in model.terms for part in combinations(term, len(term) - 1) if part)
    ]
    return [(model.name(term), replace(model, terms=model.terms | {term})) for term in model.order(ready)]


# --- one step after the other ----------------------------------------------------------------------------------------


def search(
    model: LogLinear,
    criterion: Criterion,
    direction: Direction,
    kind: Kind,
    scope: Any,
    most: int = 10_000,
    better: float = 1e-9,
) -> LogLinear:
    """Take the best step while it lowers the criterion; of equal ones the first in the order of the table.

    It gives up after `most` steps. A criterion that is lower by less than `better` is the same but for rounding.
    """
    _check_hierarchical(model, "step")
    check_choice(direction, "step: direction", get_args(Direction), InvalidQuery)
    check_choice(kind, "step: type", get_args(Kind), InvalidQuery)
    if isinstance(criterion, str):
        named = criterion.lower()  # R writes them large
        check_choice(named, "step: criterion, if it is not what a parameter costs,", ("aic", "bic"), InvalidQuery)
        price = 2.0 if named == "aic" else float(np.log(model.fit.total))
    else:
        price = check_number(criterion, "step: criterion", 0.0, error=InvalidQuery)
    largest = _scope(model, scope)
    unwanted = {"forward": "drop", "backward": "add"}.get(direction)

    def charge(some: LogLinear) -> float:
        """Return AIC with another price of a parameter."""
        return some.aic + (price - 2.0) * (some.rank + 1.0)

    best, path = model, list[Move]()
    for _ in range(most):
        if kind == "hierarchical":
            found: list[tuple[Action, str, Formula]] = [("drop", *smaller) for smaller in _smaller(best.model)]
            found += [("add", *larger) for larger in _larger(best.model, largest)]
        else:
            found = list(_edges(best, largest))
        moves = [(action, name, best.refit(other)) for action, name, other in found if action != unwanted]
        changes = [charge(other) - charge(best) for _, _, other in moves]
        if not changes or min(changes) >= -better:
            break
        first = next(i for i, change in enumerate(changes) if change <= min(changes) + better)
        action, name, best = moves[first]
        path.append(Move(action, name, charge(best), changes[first], best.formula))
    return replace(best, path=tuple(path))


def _edges(model: LogLinear, scope: frozenset[Term] | None) -> Iterator[tuple[Action, str, Formula]]:
    """List the edges whose change leaves the graph of the model without long cycles."""
    own, names = model.model, model.names
    edges = _pairs(own.terms)
    absent = [name for name in names if frozenset([name]) not in own.terms]
    if absent or own.functions or terms_of_graph(edges, names) != own.terms:
        why = f", {absent[0]} is not in it" if absent else " they are not"
        raise InvalidQuery(
            "step(type='decomposable') begins with a model that has every variable, and whose generators are the "
            "cliques of its graph, in which every cycle of four or more variables has a chord; of "
            f"{model.formula}{why}. Begin with another, or take type='hierarchical'."
        )
    for pair in combinations(names, 2):
        edge = frozenset(pair)
        terms = terms_of_graph(edges ^ {edge}, names)
        if _pairs(terms) == edges ^ {edge} and (scope is None or terms <= scope):
            yield "drop" if edge in edges else "add", own.name(edge), replace(own, terms=terms)


def _pairs(terms: frozenset[Term]) -> frozenset[Term]:
    return frozenset(term for term in terms if len(term) == 2)


def terms_of_graph(edges: frozenset[Term], names: Sequence[str]) -> frozenset[Term]:
    """List all sets of variables that lie in a clique of a graph; one with long cycles gets more edges first.

    >>> sorted("".join(sorted(term)) for term in terms_of_graph(frozenset(map(frozenset, ["ab", "bc"])), "abc"))
    ['a', 'ab', 'b', 'bc', 'c']
    """
    graph = np.array([[frozenset([a, b]) in edges for b in names] for a in names])
    return close(frozenset(names[k] for k in clique.modes) for clique in clique_tree(graph, [2] * len(names)).cliques)
