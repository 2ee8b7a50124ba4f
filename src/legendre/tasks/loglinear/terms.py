"""Sets of terms: what is hierarchical, generators, how a model is written, and its basis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from legendre.basis.basis import Basis, cells, empty
from legendre.basis.interactions import block, interactions
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels
from legendre.tasks.loglinear.formula import Model, Term
from legendre.tasks.loglinear.words import quoted


def closed(terms: Iterable[Term]) -> frozenset[Term]:
    """Add to each term all that it contains."""
    parts = (part for term in terms for size in range(1, len(term) + 1) for part in combinations(sorted(term), size))
    return frozenset(map(frozenset, parts))


def hierarchical_model(model: Model) -> Model:
    """Add lower terms; refuse the model if one of them was taken away on purpose."""
    terms = closed(model.terms)
    for lost in sorted(model.removed & terms, key=lambda term: (len(term), sorted(term))):
        above = min((term for term in model.terms if lost < term), key=lambda term: (len(term), sorted(term)))
        raise InvalidBasis(
            f"the term {term_name(above)} needs {term_name(lost)}, which the formula takes away. Take "
            f"{term_name(above)} away as well, or pass hierarchical=False: then the model depends on which levels come "
            "first."
        )
    return Model(terms, model.functions)


def term_name(term: Term, names: Sequence[str] | None = None) -> str:
    """Write a term as R does; a name with blanks in backticks."""
    ordered = sorted(term, key=None if names is None else list(names).index)
    return ":".join(quoted(name) for name in ordered) if term else "1"


def generators(terms: frozenset[Term], names: Sequence[str]) -> list[tuple[str, ...]]:
    """List the largest terms, each with its variables in the order of the table."""
    largest = [term for term in terms if not any(term < other for other in terms)]
    ordered = [tuple(sorted(term, key=list(names).index)) for term in largest]
    return sorted(ordered, key=lambda group: [list(names).index(name) for name in group])


def bracketed(terms: frozenset[Term], names: Sequence[str]) -> str:
    """Write a hierarchical model by its generators: ``[class sex] [survived]``."""
    return " ".join(f"[{' '.join(group)}]" for group in generators(terms, names)) or "[]"


def formula_of(model: Model, names: Sequence[str], *, hierarchical: bool) -> str:
    """Write a model as a formula."""
    if hierarchical:
        parts = ["*".join(map(quoted, group)) for group in generators(model.terms, names)]
    else:
        parts = [term_name(term, names) for term in in_order(model.terms, names)]
    return " + ".join([*parts, *map(str, model.functions)]) or "1"


def in_order(terms: Iterable[Term], names: Sequence[str]) -> list[Term]:
    """Sort terms: single variables first, in the order of the table."""
    place = {name: k for k, name in enumerate(names)}
    return sorted(terms, key=lambda term: (len(term), sorted(place[name] for name in term)))


def basis_of(model: Model, labels: Labels, names: Sequence[str], *, hierarchical: bool) -> Basis:
    """Make the basis of a model on a table."""
    place = {name: k for k, name in enumerate(names)}
    groups = [tuple(sorted(place[name] for name in term)) for term in model.terms]
    if hierarchical:
        largest = generators(model.terms, names)
        basis = interactions([[place[name] for name in group] for group in largest]) if largest else empty()
    else:
        listed = [block(labels.shape, group) for group in sorted(groups)]
        basis = cells(np.concatenate(listed)) if listed else empty()
    for function in model.functions:
        basis = basis | function.basis(labels)
    return basis


def written_out(model: Model, labels: Labels, names: tuple[str, ...], *, hierarchical: bool) -> tuple[Model, Basis]:
    """Return a model with all of its terms, and its basis."""
    whole = hierarchical_model(model) if hierarchical else replace(model, removed=frozenset())
    return whole, basis_of(whole, labels, names, hierarchical=hierarchical)
