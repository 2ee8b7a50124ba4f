"""Graphs of models: variables are joined that interact; a decomposable model is a graph without long cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from legendre.core.errors import InvalidQuery

Edge = frozenset[str]


def edges_of(terms: frozenset[frozenset[str]]) -> frozenset[Edge]:
    """List the pairs of variables that share a term."""
    return frozenset(frozenset(pair) for term in terms for pair in combinations(term, 2))


def elimination_order(edges: frozenset[Edge], names: Sequence[str]) -> list[str] | None:
    """Find an order in which each variable's neighbours that are left are all joined; ``None`` if there is none.

    >>> square = frozenset(map(frozenset, ["ab", "bc", "cd", "ad"]))
    >>> elimination_order(square, "abcd") is None, elimination_order(square | {frozenset("ac")}, "abcd")
    (True, ['b', 'a', 'c', 'd'])
    """
    around = {name: {other for edge in edges if name in edge for other in edge - {name}} for name in names}
    order: list[str] = []
    while around:
        simple = (name for name, near in around.items() if all(frozenset(p) in edges for p in combinations(near, 2)))
        name = next(simple, None)
        if name is None:
            return None
        order.append(name)
        for other in around.pop(name):
            around[other].discard(name)
    return order


def cliques_of(edges: frozenset[Edge], names: Sequence[str]) -> list[frozenset[str]]:
    """List the largest sets of variables that are all joined, of a graph without long cycles."""
    order = elimination_order(edges, names)
    if order is None:
        raise InvalidQuery(
            "step(type='decomposable'): the graph of the model has a cycle of four or more variables without a chord. "
            "Begin with another model, or take type='hierarchical'."
        )
    found: list[frozenset[str]] = []
    for i, name in enumerate(order):
        later = set(order[i + 1 :])
        group = frozenset({name} | {other for other in later if frozenset((name, other)) in edges})
        if not any(group <= other for other in found):
            found.append(group)
    return found


def neighbours(
    edges: frozenset[Edge], names: Sequence[str]
) -> Iterator[tuple[Literal["add", "drop"], Edge, frozenset[Edge]]]:
    """List the graphs without long cycles that have one edge less, or one more."""
    for pair in combinations(names, 2):
        edge = frozenset(pair)
        action: Literal["add", "drop"] = "drop" if edge in edges else "add"
        other = edges ^ {edge}
        if elimination_order(other, names) is not None:
            yield action, edge, other
