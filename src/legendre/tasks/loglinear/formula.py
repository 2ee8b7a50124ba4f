"""Formulas of log-linear models: R's signs for terms, generators in brackets, lists of names, functions of variables.

A formula is read to a set of terms, each a set of variables (by their numbers in the table), and to functions of
variables, such as ``uniform(a, b)``, that stand for features of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import combinations
from typing import Any, NoReturn, cast

import numpy as np

from legendre.basis import ties
from legendre.basis.basis import Basis, cells, empty
from legendre.basis.features import features as features_of
from legendre.basis.interactions import blocks, interactions
from legendre.core.arguments import entries
from legendre.core.errors import InvalidBasis, InvalidQuery, unknown_name
from legendre.model.cliques.graph import clique_tree

Term = frozenset[int]
R_WORDS = {
    "offset": "pass the factors themselves as base=exposure.",
    "I": "pass a function of levels by its name, features={'name': lambda a: ...}.",
    "factor": "every variable is a factor; name it alone.",
    "log": "pass a function of levels by its name, features={'name': lambda a: ...}.",
}
"""What to write instead of functions that R's formulas have."""
NAME = r"""`[^`]*`|"[^"]*"|'[^']*'|[^\W\d]\w*(?:\.\w+)*|\."""
"""A name, in quotes if it is not a plain word; a dot is one, too."""
SIGNS = {"+": 0, "-": 0, "*": 1, ":": 2, "^": 3, "**": 3}
"""The signs that join terms, and how much they bind."""
HINTS = {"~": "before ~ stands the name of a column of counts, or nothing.", "/": "write a/b as a + a:b."}
"""What to write instead of signs that R's formulas have."""
LOST = object()
"""Stands for a feature of a model that was read from a file, which does not hold it."""


@dataclass(frozen=True)
class FunctionTerm:
    """A function of variables in a formula, ``uniform(a, b)``: its name, its arguments, and how it was written."""

    text: str = field(compare=False)
    name: str
    args: tuple[tuple[str, Any], ...] = ()  # each with its name, or an empty one
    feature: Any = field(default=None, compare=False, repr=False)  # the caller's own function or array
    within: tuple[str, ...] = ()  # variables: each of their levels has its own parameters

    def __str__(self) -> str:
        return ":".join([*map(quote, self.within), self.text])

    def basis(self) -> Basis:
        """Make its basis, which finds its variables by name when it sees a table."""
        if self.feature is LOST:
            raise InvalidQuery(f"the feature {self.name!r} is not in the file that this model was loaded from.")
        if self.feature is not None:
            made: Any = features_of({self.text: self.feature}, modes=[name for _, name in self.args] or None)
        else:
            make = getattr(ties, self.name)
            try:
                made = make(*(value for key, value in self.args if not key), **{key: v for key, v in self.args if key})
            except TypeError:
                wanted = ", ".join(signature(make).parameters)
                raise InvalidBasis(f"the formula has {self}; write {self.name}({wanted}).") from None
        return cast(Basis, replace(made, within=self.within))


@dataclass(frozen=True)
class Formula:
    """A model: what a formula over the variables of a table stands for."""

    names: tuple[str, ...]  # the variables, in the order of the table
    terms: frozenset[Term] = frozenset()
    functions: tuple[FunctionTerm, ...] = ()
    removed: frozenset[Term] = frozenset()  # terms that were taken away on purpose
    hierarchical: bool = True  # whether each term stands for all that it contains, too

    def __add__(self, other: Formula) -> Formula:
        functions = tuple(dict.fromkeys((*self.functions, *other.functions)))
        return replace(self, terms=self.terms | other.terms, functions=functions, removed=self.removed - other.terms)

    def __sub__(self, other: Formula) -> Formula:
        functions = tuple(f for f in self.functions if f not in other.functions)
        return replace(self, terms=self.terms - other.terms, functions=functions, removed=self.removed | other.terms)

    @property
    def features(self) -> dict[str, Any]:
        """The features of the caller's own that the model has, by name."""
        return {term.name: term.feature for term in self.functions if term.feature is not None}

    def order(self, terms: Iterable[Term]) -> list[Term]:
        """Sort terms: single variables first, in the order of the table."""
        return sorted(terms, key=lambda term: (len(term), sorted(term)))

    def name(self, term: Term) -> str:
        """Write a term as R does."""
        return ":".join(quote(self.names[k]) for k in sorted(term)) or "1"

    @property
    def largest(self) -> list[Term]:
        """The terms that no other one contains."""
        return self.order(term for term in self.terms if not any(term < other for other in self.terms))

    @property
    def generators(self) -> list[tuple[str, ...]]:
        """The largest terms, each with its variables in the order of the table."""
        return [tuple(self.names[k] for k in group) for group in sorted(map(sorted, self.largest))]

    def __str__(self) -> str:
        if self.hierarchical:
            parts = ["*".join(map(quote, group)) for group in self.generators]
        else:
            parts = [self.name(term) for term in self.order(self.terms)]
        return " + ".join([*parts, *map(str, self.functions)]) or "1"

    def basis(self, shape: tuple[int, ...]) -> Basis:
        """Make the basis of the model on a table."""
        if not self.terms:
            basis: Basis = empty()
        elif self.hierarchical:
            basis = interactions(sorted(map(sorted, self.largest)))
        else:
            basis = cells(blocks(shape, sorted(tuple(sorted(term)) for term in self.terms)))
        for function in self.functions:
            basis = basis | function.basis()
        return basis

    def read_scope(self, scope: Any) -> frozenset[Term] | None:
        """Return the terms that models larger than this one may have; ``None`` is all interactions."""
        if scope is None:
            return None
        allowed = read_formula(scope, self.names, known=self.features).terms
        for term in self.order(self.terms - allowed)[:1]:
            raise InvalidQuery(f"the scope {scope!r} does not contain the model: {self.name(term)} is missing.")
        return allowed

    def list_smaller(self) -> list[tuple[str, str, Formula]]:
        """List the models without one of the largest terms: "drop", the name of that term, and the model."""
        return [("drop", self.name(term), replace(self, terms=self.terms - {term})) for term in self.largest]

    def list_larger(self, scope: frozenset[Term] | None) -> list[tuple[str, str, Formula]]:
        """List the models with one more term of a scope ("add"), whose parts with one variable less are all in this."""
        known = {Term(), *self.terms}
        found = {term | {k} for term in known for k in range(len(self.names))} - self.terms
        ready = [t for t in found if (scope is None or t in scope) and all(t - {k} in known for k in t)]
        return [("add", self.name(term), replace(self, terms=self.terms | {term})) for term in self.order(ready)]

    def list_graphs(self, scope: frozenset[Term] | None) -> list[tuple[str, str, Formula]]:
        """List the decomposable models whose graphs have one edge less ("drop") or more ("add"), with the edge."""
        n, edges = len(self.names), _edges(self.terms)
        absent = [name for k, name in enumerate(self.names) if Term([k]) not in self.terms]
        if absent or self.functions or terms_of_graph(edges, n) != self.terms:
            why = f", {absent[0]} is not in it" if absent else " they are not"
            raise InvalidQuery(
                "step(type='decomposable') begins with a model that has every variable, and whose generators are the "
                "cliques of its graph, in which every cycle of four or more variables has a chord; of "
                f"{self}{why}. Begin with another, or take type='hierarchical'."
            )
        found = []
        for edge in map(Term, combinations(range(n), 2)):
            changed = edges ^ {edge}
            terms = terms_of_graph(changed, n)
            if _edges(terms) == changed and (scope is None or terms <= scope):  # no edge had to be added
                found.append(("drop" if edge in edges else "add", self.name(edge), replace(self, terms=terms)))
        return found


def close(terms: Iterable[Iterable[int]]) -> frozenset[Term]:
    """Add to each term all terms that it contains: a hierarchical model has them too."""
    sets = map(list, terms)
    return frozenset(Term(part) for own in sets for n in range(1, len(own) + 1) for part in combinations(own, n))


def _edges(terms: frozenset[Term]) -> frozenset[Term]:
    """Return the graph of a model: the pairs of variables with an interaction."""
    return frozenset(term for term in terms if len(term) == 2)


def terms_of_graph(edges: frozenset[Term], n: int) -> frozenset[Term]:
    """List all sets of n variables that lie in a clique of a graph: the terms of its graphical model.

    If a cycle of four or more variables has no chord, edges are added first, so the answer has more edges then.

    >>> sorted(map(sorted, terms_of_graph(frozenset([Term([0, 1]), Term([1, 2])]), 3)))
    [[0], [0, 1], [1], [1, 2], [2]]
    """
    graph = np.array([[Term([a, b]) in edges for b in range(n)] for a in range(n)])
    return close(clique.modes for clique in clique_tree(graph, [2] * n).cliques)


def quote(name: str) -> str:
    """Put a name that is not a plain word in backticks, or in quotes if it contains a backtick.

    >>> quote("age"), quote("hair colour")
    ('age', '`hair colour`')
    """
    mark = next((mark for mark in "`\"'" if mark not in name), "`")
    return name if name.isidentifier() else f"{mark}{name}{mark}"


# --- reading ---------------------------------------------------------------------------------------------------------


def read_formula(
    formula: Any,
    names: Sequence[str],
    features: Any = None,
    *,
    dot: Formula | None = None,
    known: Mapping[str, Any] | None = None,
    hierarchical: bool = True,
) -> Formula:
    """Read a formula over some variables; a list of names, or of lists of names, is one of generators.

    `features` are functions of one's own, by the names that they have in the formula; those that are `known` before
    need not occur in it. A `dot` stands for all variables, or for a model.

    >>> str(read_formula("(a + b + c)^2 - a:b", "abc"))
    'a*c + b*c'
    """
    if not isinstance(features or {}, Mapping) or not all(str(name).isidentifier() for name in features or {}):
        raise InvalidBasis(
            "features must be a dict of names and functions or arrays, such as {'near': lambda a, b: abs(a - b) < 2}; "
            f"got {features!r}."
        )
    own = dict(features or {})
    for name in own.keys() & {*ties.__all__, *names}:
        what = "a variable" if name in names else "an association model"
        raise InvalidBasis(f"features: {name!r} is {what}. Give the feature another name.")
    every = Formula(tuple(names), frozenset(Term([k]) for k in range(len(names))))
    if dot is not None:  # what a file does not hold may be passed again
        dot = replace(dot, functions=tuple(replace(f, feature=own.get(f.name, f.feature)) for f in dot.functions))
    if isinstance(formula, str):
        try:
            found = _Reader(dot or every, {**(known or {}), **own}, _split(formula)[::-1]).read_all()
        except InvalidBasis as problem:
            raise InvalidBasis(f"the formula {formula!r}: {problem}") from None
        except RecursionError:
            raise InvalidBasis("the formula has too many brackets within each other.") from None
    else:
        groups = (Term(_find(str(name), names) for name in group) for group in _read_groups(formula))
        found = replace(every, terms=frozenset(groups))
    for name in own.keys() - found.features.keys():
        raise InvalidBasis(
            f"the formula {formula!r} does not name the feature {name!r}. Write {name}(a, b) with the variables that "
            f"it depends on, or {name} alone if it depends on all of them, in the order of the table."
        )
    written = found.terms - {Term()}
    terms = close(written) if hierarchical else written
    for lost in found.order(found.removed & (terms - written))[:1]:
        above = found.name(next(term for term in found.order(written) if lost < term))
        raise InvalidBasis(
            f"the term {above} needs {found.name(lost)}, which the formula removes. Remove {above} as well, or "
            "pass hierarchical=False: then the model depends on which levels come first."
        )
    return replace(found, terms=terms, removed=frozenset(), hierarchical=hierarchical)


def update_formula(old: Formula, formula: Any, features: Any = None) -> Formula:
    """Read a formula in which a dot is an old one, as in R's ``update``; before a first + or - the dot may be left out.

    >>> str(update_formula(read_formula("a*b", "abc"), ". ~ . + c"))
    'a*b + c'
    """
    if (left := left_side(formula)) not in (None, "."):
        raise InvalidBasis(f"the formula {formula!r} names {left!r} before ~; update keeps the counts: write '. ~'.")
    if isinstance(formula, str) and formula.lstrip()[:1] in ("+", "-"):
        formula = f". {formula}"
    return read_formula(formula, old.names, features, known=old.features, dot=old, hierarchical=old.hierarchical)


def left_side(formula: Any) -> str | None:
    """Return what stands before ``~``, which a formula may have: the name of the column of counts, or a dot."""
    found = re.match(rf"\s*({NAME})\s*~", formula) if isinstance(formula, str) else None
    return _unquote(found[1]) if found else None


def list_names(formula: Any) -> list[str] | None:
    """List the names of variables and features in a formula, in order: the columns of a data frame that it needs.

    ``None`` stands for all columns: the formula has a dot, or generators in brackets, which may be initials.
    """
    if not isinstance(formula, str):
        return list(dict.fromkeys(str(name) for group in _read_groups(formula) for name in group))
    found = [match.group() for match in _split(formula)]
    pairs = zip(found, [*found[1:], ""], strict=True)
    named = [text for text, after in pairs if re.fullmatch(NAME, text) and after not in ("(", "=")]
    return None if "." in named or found[0] == "[" else list(dict.fromkeys(map(_unquote, named)))


def _split(formula: str) -> list[re.Match[str]]:
    """Split what stands after ``~`` into names, numbers and signs."""
    left = re.match(rf"\s*({NAME})?\s*~", formula)
    found = list(re.compile(rf"{NAME}|\d+(?:\.\d+)?|\*\*|\S").finditer(formula, left.end() if left else 0))
    if not found:
        raise InvalidBasis("it is empty. Write '1' for a model without variables.")
    return found


def _unquote(name: str) -> str:
    return name[1:-1] if name[0] in "`\"'" else name


def _read_groups(formula: Any) -> list[list[Any]]:
    """Read generators from a caller's list of names and lists of names; empty ones are left out."""
    listed = entries(formula)
    if listed is None:
        raise InvalidBasis(
            f"a model is a formula such as 'a*b + c', '[ab][c]', or a list of generators such as [['a', 'b'], ['c']]; "
            f"got {formula!r}."
        )
    return [group for item in listed if (group := [item] if isinstance(item, str) else entries(item) or [])]


def _find(name: str, names: Sequence[str]) -> int:
    """Return the number of the variable of this name."""
    if name not in names:
        raise InvalidBasis(unknown_name("variable", name, names))
    return names.index(name)


def _find_all(word: str, names: Sequence[str]) -> list[int]:
    """Return the number of the variable of this name, or of those whose initials are its letters."""
    if word in names:
        return [names.index(word)]
    out = []
    for letter in word:
        found = [letter] if letter in names else [n for n in names if n[:1].lower() == letter.lower()]
        if len(found) > 1:
            raise InvalidBasis(
                f"{letter!r} in [{word}] may be {' or '.join(found)}. Write the names in full, with commas between."
            )
        if not found:
            unknown = unknown_name("variable", word, names)
            raise InvalidBasis(f"[{word}] is not a variable, nor are its letters initials of some. {unknown}")
        out.append(names.index(found[0]))
    return out


@dataclass(frozen=True)
class _Reader:
    """Reads the names, numbers and signs of a formula, the last first in the list."""

    dot: Formula
    features: Mapping[str, Any]
    left: list[re.Match[str]]

    @property
    def next(self) -> str:
        """The next name, number or sign; empty at the end."""
        return self.left[-1].group() if self.left else ""

    def take(self, wanted: str = "") -> str:
        """Take the next name, number or sign, which must be the one that is wanted, if any."""
        text = self.next
        if not text or wanted not in ("", text):
            self.refuse()
        self.left.pop()
        return text

    def skip(self, sign: str) -> bool:
        """Take the next sign if it is this one, and say whether it was."""
        found = self.next == sign
        if found:
            self.left.pop()
        return found

    def refuse(self) -> NoReturn:
        """Say where the formula cannot be read."""
        where = f"{self.next!r} on (place {self.left[-1].start() + 1})" if self.left else "its end"
        hint = HINTS.get(self.next, "names are joined by + - * : and ^, and every bracket is closed.")
        raise InvalidBasis(f"it cannot be read from {where}: {hint}")

    def read_all(self) -> Formula:
        """Read generators, such as ``[AB][C]``, or terms."""
        if self.next == "[":
            groups = set[Term]()
            while self.skip("["):
                words = self.read_list("]", self.take)
                groups.add(Term(k for word in words for k in _find_all(_unquote(word), self.dot.names)))
            found = Formula(self.dot.names, frozenset(groups))
        else:
            found = self.read()
        if self.left:
            self.refuse()
        return found

    def read(self, least: int = 0) -> Formula:
        """Read terms that are joined by signs whose rank in `SIGNS` is at least this; higher ranks bind first."""
        found = self.read_atom()
        while (rank := SIGNS.get(self.next, -1)) >= least:
            sign = self.take()
            if sign in ("^", "**"):
                found = self.raise_to(found, self.take())
                continue
            other = self.read(rank + 1)
            if sign == "+":
                found = found + other
            elif sign == "-":
                lost = [found.name(t) for t in other.terms if t and not any(t <= own for own in found.terms)]
                for name in sorted([*lost, *(str(f) for f in other.functions if f not in found.functions)]):
                    raise InvalidBasis(f"it removes {name}, which is not in it.")
                found = found - other
            else:
                joint = self.join(found, other)
                found = joint if sign == ":" else found + other + joint
        return found

    def read_atom(self) -> Formula:
        """Read a name, a function, a number, or what stands between brackets, with a sign before it or none."""
        nothing = Formula(self.dot.names)
        if self.skip("("):
            found = self.read()
            self.take(")")
            return found
        if self.skip("-"):
            return nothing - self.read_atom()
        if self.skip("+"):
            return self.read_atom()
        if self.skip("0") or self.skip("1"):
            return replace(nothing, terms=frozenset([Term()]))
        if self.skip("."):
            return self.dot
        if not re.fullmatch(NAME, self.next):
            self.refuse()
        start = self.left.pop()
        name, with_arguments = _unquote(start.group()), self.skip("(")
        if not with_arguments and name not in self.features:
            return replace(nothing, terms=frozenset([Term([_find(name, self.dot.names)])]))
        args = self.read_list(")", self.read_argument) if with_arguments else []
        end = self.left[-1].start() if self.left else None
        function = FunctionTerm(start.string[start.start() : end].strip(), name, tuple(args), self.features.get(name))
        self.check_function(function)
        return replace(nothing, functions=(function,))

    def read_list(self, end: str, read: Callable[[], Any]) -> list[Any]:
        """Read items up to a closing bracket; commas between them may be left out."""
        out = []
        while not self.skip(end):
            out.append(read())
            self.skip(",")
        return out

    def read_argument(self) -> tuple[str, Any]:
        """Read an argument of a function: its name, or an empty one, and its value."""
        value = self.read_value()
        return (str(value), self.read_value()) if self.skip("=") else ("", value)

    def read_value(self) -> Any:
        """Read a name, a number, or a list of these."""
        text = self.take()
        if text == "[":
            return tuple(self.read_list("]", self.read_value))
        if text == "-":
            if not self.next[:1].isdigit():
                raise InvalidBasis("arguments of functions are names, numbers and lists.")
            return -self.read_value()
        if text[0].isdigit():
            return float(text) if "." in text else int(text)
        return _unquote(text)

    def join(self, one: Formula, other: Formula, most: int = 100_000) -> Formula:
        """Return the interactions of two formulas: each term of one with each of the other, as R's colon does.

        A function of variables is taken for each level of the term that it is joined with.
        """
        if one.functions and other.functions:
            raise InvalidBasis("functions can be added, and taken for each level of a variable: a:f(b, c).")
        functions = tuple(
            replace(f, within=(*f.within, *(self.dot.names[k] for k in sorted(term))))
            for f in one.functions + other.functions
            for term in self.dot.order(other.terms if one.functions else one.terms)
            if term
        )
        terms = frozenset(a | b for a in one.terms for b in other.terms)
        if len(terms) > most:
            raise InvalidBasis(f"it has more than {most:,} terms. Use a lower power.")
        return Formula(self.dot.names, terms, functions)

    def raise_to(self, found: Formula, exponent: str) -> Formula:
        """Return all interactions of up to `exponent` terms, as R's ``^`` does."""
        if not exponent.isdigit() or exponent == "0":
            raise InvalidBasis("a power, after ^, must be a whole number >= 1.")
        out = found
        for _ in range(min(int(exponent), len(found.terms)) - 1):
            out = out + self.join(out, found)
        return out

    def check_function(self, function: FunctionTerm) -> None:
        """Refuse functions that do not exist, and arguments other than variables of a feature of the caller's."""
        name = function.name
        if name in self.features:
            if any(key or not isinstance(value, str) for key, value in function.args):
                raise InvalidBasis(f"the feature {name} takes names of variables only.")
        elif name in R_WORDS:
            raise InvalidBasis(f"{name}(...) is R's: {R_WORDS[name]}")
        elif name not in ties.__all__:
            unknown = unknown_name("function", name, [*ties.__all__, *self.features])
            raise InvalidBasis(f"{unknown} A function of your own is passed as features={{{name!r}: ...}}.")
