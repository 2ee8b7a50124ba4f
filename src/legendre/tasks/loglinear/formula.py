"""Formulas of log-linear models: R's operators, generators in brackets, lists of names, functions of variables.

A formula is parsed into a set of terms, each a set of variables (by their numbers in the table), and into functions of
variables, such as ``uniform(a, b)``, which stand for features of their own.
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
from legendre.basis.interactions import blocks, interactions, list_subsets
from legendre.core.arguments import check_name, entries
from legendre.core.errors import InvalidBasis, InvalidQuery, unknown_name
from legendre.core.types import Shape
from legendre.model.cliques.graph import clique_tree

Term = frozenset[int]
TermSet = frozenset[Term]
R_WORDS = {
    "offset": "pass the factors themselves as base=exposure.",
    "I": "pass a function of levels by its name, features={'name': lambda a: ...}.",
    "factor": "every variable is a factor; name it alone.",
    "log": "pass a function of levels by its name, features={'name': lambda a: ...}.",
}
"""What to write instead of functions that R's formulas have and these do not."""
NAME = r"""`[^`]*`|"[^"]*"|'[^']*'|[^\W\d]\w*(?:\.\w+)*|\."""
"""Regular expression of a name, in quotes if it is not a plain word; a single dot is a name, too."""
SIGNS = {"+": 0, "-": 0, "*": 1, ":": 2, "^": 3, "**": 3}
"""The operators that join terms, and their precedence."""
HINTS = {
    "~": "before ~ stands the name of a column of counts, or nothing.",
    "/": "write a/b as a + a:b.",
    "%in%": "write a:b.",
}
"""What to write instead of operators that R's formulas have and these do not."""
LOST = object()
"""Stands for a caller's own feature in a model loaded from a file: files do not hold functions."""


@dataclass(frozen=True)
class FunctionTerm:
    """A function of variables in a formula, ``uniform(a, b)``: its name, its arguments, and how it was written."""

    text: str = field(compare=False)
    name: str
    args: tuple[tuple[str, Any], ...]  # name and value of each; a positional argument has an empty name
    within: tuple[str, ...] = ()  # variables before a colon: each combination of their levels has its own parameters

    def __str__(self) -> str:
        """Write the term so that it can be read back: the variables whose levels it is taken for come first."""
        return ":".join([*map(quote, self.within), self.text])

    def basis(self, features: Mapping[str, Any]) -> Basis:
        """Make the basis of this term: of the caller's own feature of this name, or of the function in `ties`.

        The basis finds its variables by name when it is applied to a table.
        """
        if self.name in features:
            feature = features[self.name]
            if feature is LOST:
                raise InvalidQuery(f"the feature {self.name!r} is not in the file that this model was loaded from.")
            made: Any = features_of({self.text: feature}, modes=[name for _, name in self.args] or None)
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
    """A log-linear model: the terms and functions that a formula over the variables of a table stands for."""

    names: tuple[str, ...]  # the variables, in the order of the table
    terms: TermSet = frozenset()
    functions: tuple[FunctionTerm, ...] = ()
    features: Mapping[str, Any] = field(default_factory=dict, compare=False)  # the caller's own, by name
    hierarchical: bool = True  # whether each term also stands for all terms that it contains

    def __add__(self, other: Formula) -> Formula:
        """Return the model with the terms and functions of both; the reader's plus sign."""
        functions = tuple(dict.fromkeys((*self.functions, *other.functions)))
        return replace(self, terms=self.terms | other.terms, functions=functions)

    def __sub__(self, other: Formula) -> Formula:
        """Return the model without the terms and functions of another; the reader's minus sign, and `drop1`."""
        functions = tuple(f for f in self.functions if f not in other.functions)
        return replace(self, terms=self.terms - other.terms, functions=functions)

    def name(self, term: Term) -> str:
        """Write a term as R does: ``a:b``, or ``1`` for the term without variables."""
        return ":".join(quote(self.names[k]) for k in sorted(term)) or "1"

    @property
    def largest(self) -> list[Term]:
        """The terms that no other one contains: they generate a hierarchical model, and may be dropped."""
        return sort_terms(term for term in self.terms if not any(term < other for other in self.terms))

    @property
    def generators(self) -> list[tuple[str, ...]]:
        """The largest terms, each with its variables in the order of the table."""
        return [tuple(self.names[k] for k in group) for group in sorted(map(sorted, self.largest))]

    def __str__(self) -> str:
        """Write the model as a formula that `read_formula` reads; if it is hierarchical, by its largest terms."""
        if self.hierarchical:
            texts = ["*".join(map(quote, group)) for group in self.generators]
        else:
            texts = [self.name(term) for term in sort_terms(self.terms)]
        return " + ".join([*texts, *map(str, self.functions)]) or "1"

    def basis(self, shape: Shape) -> Basis:
        """Make the basis of the model on a table of this shape.

        A hierarchical model is given by its largest terms. Otherwise a term is the cells in which exactly its variables
        are above their first level; these span the same model as R's treatment contrasts.
        """
        if not self.terms:
            basis: Basis = empty()
        elif self.hierarchical:
            basis = interactions(sorted(map(sorted, self.largest)))
        else:
            basis = cells(blocks(shape, sorted(tuple(sorted(term)) for term in self.terms)))
        for function in self.functions:
            basis = basis | function.basis(self.features)
        return basis

    def read_scope(self, scope: Any) -> TermSet | None:
        """Read the scope of a search, the formula of the largest model that it may reach, and return its terms.

        ``None`` stands for all interactions. A scope that does not contain this model is refused.
        """
        if scope is None:
            return None
        every = _list_variables(self.names)
        allowed = read_formula(scope, self.names, dot=Formula(self.names, every, features=self.features)).terms
        # the error names the first term that the scope lacks, if it lacks one
        for term in sort_terms(self.terms - allowed)[:1]:
            raise InvalidQuery(f"the scope {scope!r} does not contain the model: {self.name(term)} is missing.")
        return allowed

    def list_smaller(self) -> list[Neighbour]:
        """List the hierarchical models without one of the largest terms: "drop", the term's name, and the model.

        `drop1` fits them, and so does each step of a search.
        """
        return [("drop", self.name(term), replace(self, terms=self.terms - {term})) for term in self.largest]

    def list_larger(self, scope: TermSet | None) -> list[Neighbour]:
        """List the hierarchical models with one more term of the scope: "add", the term's name, and the model.

        `add1` fits them, and so does each step of a search. A scope of ``None`` has all terms.
        """
        known = {Term(), *self.terms}
        found = {term | {k} for term in known for k in range(len(self.names))} - self.terms
        # the model stays hierarchical if it has all parts of the new term, and so those with one variable less
        ready = [t for t in found if (scope is None or t in scope) and all(t - {k} in known for k in t)]
        return [("add", self.name(term), replace(self, terms=self.terms | {term})) for term in sort_terms(ready)]

    def list_graphs(self, scope: TermSet | None) -> list[Neighbour]:
        """List the decomposable models whose graphs have one edge less or more than this model's graph.

        Each comes with "drop" or "add" and the name of the edge, a pair of variables. A graph is decomposable if every
        cycle of four or more variables has a chord; its cliques generate the model. An edge may be dropped if the
        common neighbours of its ends are all neighbours of each other, and added if they separate its ends.
        """
        n, edges = len(self.names), frozenset(term for term in self.terms if len(term) == 2)
        if self.functions or terms_of_graph(edges, n) != self.terms:
            raise InvalidQuery(
                f"step(type='decomposable') cannot begin with {self}: it begins with a model that has every variable, "
                "and whose generators are the cliques of its graph, in which every cycle of four or more variables has "
                "a chord. Begin with another, or take type='hierarchical'."
            )
        near = [frozenset().union(*(edge for edge in edges if k in edge)) - {k} for k in range(n)]
        found = []
        for a, b in combinations(range(n), 2):
            edge, shared = Term([a, b]), near[a] & near[b]
            if edge in edges and all(Term(pair) in edges for pair in combinations(shared, 2)):
                action, terms = "drop", frozenset(term for term in self.terms if not edge <= term)
            elif edge not in edges and _separates(shared, near, a, b):
                action, terms = "add", self.terms | {edge} | {edge | part for part in add_contained([shared], n)}
            else:
                continue
            if scope is None or terms <= scope:
                found.append((action, self.name(edge), replace(self, terms=terms)))
        return found


def _separates(shared: Term, near: Sequence[Term], a: int, b: int) -> bool:
    """Decide whether each path from a to b goes through one of the variables `shared`; `near` has all neighbours."""
    known, waiting = {a, *shared}, [a]
    while waiting:
        reached = near[waiting.pop()] - known
        known |= reached
        waiting += reached
    return b not in known


# a model with one term, or one edge of a graph, less or more: "drop" or "add", its name, and the model
Neighbour = tuple[str, str, Formula]


def sort_terms(terms: Iterable[Term]) -> list[Term]:
    """Sort terms by the number of their variables, then by the order of the variables in the table, as R does."""
    return sorted(terms, key=lambda term: (len(term), sorted(term)))


def _list_variables(names: Sequence[str]) -> TermSet:
    """List the terms of the model of independence, one for each variable: what a dot in a formula stands for."""
    return frozenset(Term([k]) for k in range(len(names)))


def add_contained(terms: Iterable[Term], n: int) -> TermSet:
    """Add to each term on n variables all terms that it contains but the empty one, as a hierarchical model requires.

    Terms of so many variables that their subsets cannot be listed are refused.
    """
    return frozenset(map(Term, list_subsets(map(tuple, terms), (2,) * n, n)))


def terms_of_graph(edges: TermSet, n: int) -> TermSet:
    """List the terms of the graphical model of a graph on n variables: all sets of variables that lie in a clique.

    If a cycle of four or more variables has no chord, chords are added first; the answer then has more edges.

    >>> sorted(map(sorted, terms_of_graph(frozenset([Term([0, 1]), Term([1, 2])]), 3)))
    [[0], [0, 1], [1], [1, 2], [2]]
    """
    graph = np.array([[Term([a, b]) in edges for b in range(n)] for a in range(n)])
    # the numbers of levels, here 2, matter only for the choice of chords
    return add_contained((Term(clique.modes) for clique in clique_tree(graph, [2] * n).cliques), n)


def quote(name: str) -> str:
    """Put a name that is not a plain word in backticks, so that it can be read back.

    >>> quote("age"), quote("hair colour")
    ('age', '`hair colour`')
    """
    return name if name.isidentifier() else f"`{name}`"


# --- reading ---------------------------------------------------------------------------------------------------------


def read_formula(
    formula: Any,
    names: Sequence[str],
    features: Any = None,
    *,
    dot: Formula | None = None,
    hierarchical: bool = True,
) -> Formula:
    """Read a formula over the variables `names`: a text, or generators as a list of names or of lists of names.

    `features` are the caller's own functions, by their names in the formula, which must use them all. A dot in the
    formula stands for the model `dot`, by default for all variables; features of that model need not be passed again.

    >>> str(read_formula("(a + b + c)^2 - a:b", "abc"))
    'a*c + b*c'
    """
    given = {} if features is None else features
    if not isinstance(given, Mapping) or not all(str(name).isidentifier() for name in given):
        raise InvalidBasis(
            "features must be a dict of names and functions or arrays, such as {'near': lambda a, b: abs(a - b) < 2}; "
            f"got {features!r}."
        )
    for name in given.keys() & {*ties.__all__, *names}:
        what = "a variable" if name in names else "an association model"
        raise InvalidBasis(f"features: {name!r} is {what}. Give the feature another name.")
    dot = dot or Formula(tuple(names), _list_variables(names))
    reader = _Reader(dot, {**dot.features, **given})
    if isinstance(formula, str):
        try:
            found = reader.read_all(formula)
        except InvalidBasis as problem:
            raise InvalidBasis(f"the formula {formula!r}: {problem}") from None
        except RecursionError:
            raise InvalidBasis("the formula has too many brackets within each other.") from None
    else:
        groups = (Term(_find_variable(str(name), names) for name in group) for group in _read_groups(formula))
        found = Formula(dot.names, frozenset(groups))
    used = {f.name: reader.features[f.name] for f in found.functions if f.name in reader.features}
    for name in given.keys() - used.keys():
        raise InvalidBasis(
            f"the formula {formula!r} does not name the feature {name!r}. Write {name}(a, b) with the variables that "
            f"it depends on, or {name} alone if it depends on all of them, in the order of the table."
        )
    written = found.terms - {Term()}  # the constant is in every model
    terms = add_contained(written, len(names)) if hierarchical else written
    # a term that was removed must not come back as part of a larger one: the error names the first that would
    for lost in sort_terms(reader.removed & (terms - written))[:1]:
        above = found.name(next(term for term in sort_terms(written) if lost < term))
        raise InvalidBasis(
            f"the term {above} needs {found.name(lost)}, which the formula removes. Remove {above} as well, or "
            "pass hierarchical=False: then the model depends on which levels come first."
        )
    return Formula(dot.names, terms, found.functions, used, hierarchical)


def update_formula(old: Formula, formula: Any, features: Any = None) -> Formula:
    """Read a formula in which a dot stands for the old one, as in R's ``update``.

    A formula that begins with + or - changes the old one too: the dot may be left out.

    >>> str(update_formula(read_formula("a*b", "abc"), ". ~ . + c"))
    'a*b + c'
    """
    if (left := left_side(formula)) not in (None, "."):
        raise InvalidBasis(f"the formula {formula!r} names {left!r} before ~; update keeps the counts: write '. ~'.")
    if isinstance(formula, str) and formula.lstrip()[:1] in ("+", "-"):
        formula = f". {formula}"
    return read_formula(formula, old.names, features, dot=old, hierarchical=old.hierarchical)


def left_side(formula: Any) -> str | None:
    """Return the name before a formula's ``~``: the column of counts, or a dot; ``None`` if there is none."""
    found = re.match(rf"\s*({NAME})\s*~", formula) if isinstance(formula, str) else None
    return _unquote(found[1]) if found else None


def list_names(formula: Any) -> list[str] | None:
    """List the names of variables and features in a formula, in order: the columns of a data frame that it needs.

    ``None`` stands for all columns: the formula has a dot, or generators in brackets, which may be initials.
    """
    if not isinstance(formula, str):
        return list(dict.fromkeys(str(name) for group in _read_groups(formula) for name in group))
    found = [match.group() for match in _tokenize(formula)]
    if found[0] == "[" or "." in found:
        return None
    # a name before "(" is a function's, and one before "=" is an argument's
    pairs = zip(found, [*found[1:], ""], strict=True)
    named = (_unquote(text) for text, after in pairs if re.fullmatch(NAME, text) and after not in ("(", "="))
    return list(dict.fromkeys(named))


def _tokenize(formula: str) -> list[re.Match[str]]:
    """Split the part of a formula after ``~`` into tokens: names, numbers and single characters such as operators."""
    left = re.match(rf"\s*({NAME})?\s*~", formula)
    found = list(re.compile(rf"{NAME}|\d+(?:\.\d+)?|\*\*|%in%|\S").finditer(formula, left.end() if left else 0))
    if not found:
        raise InvalidBasis("it is empty. Write '1' for a model without variables.")
    return found


def _unquote(name: str) -> str:
    """Return a name without the quotes around it, if it has any."""
    return name[1:-1] if name[0] in "`\"'" else name


def _read_groups(formula: Any) -> list[list[Any]]:
    """Read generators from a caller's list, in which a name alone is a generator too; empty ones are left out."""
    listed = entries(formula)
    if listed is None:
        raise InvalidBasis(
            f"a model is a formula such as 'a*b + c', '[ab][c]', or a list of generators such as [['a', 'b'], ['c']]; "
            f"got {formula!r}."
        )
    return [group for item in listed if (group := [item] if isinstance(item, str) else entries(item) or [])]


def _find_variable(name: str, names: Sequence[str]) -> int:
    """Return the number of the variable with this name; an unknown one is an error that names similar ones."""
    numbered = "Variables are given by name, not by number." if name.isdigit() else ""
    check_name("variable", name, names, InvalidBasis, more=numbered)
    return names.index(name)


def _find_by_initials(word: str, names: Sequence[str]) -> list[int]:
    """Return the numbers of the variables that a word in brackets means, as in ``[AC]``.

    It is the name of one variable, or else each of its letters is the name or the initial of one.
    """
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


@dataclass
class _Reader:
    """A recursive-descent parser of formulas; it takes tokens from the end of a reversed list."""

    dot: Formula  # what a dot stands for
    features: Mapping[str, Any]  # the caller's own, by name
    left: list[re.Match[str]] = field(default_factory=list)  # the tokens that are left to read, the next one last
    removed: set[Term] = field(default_factory=set)  # the terms that a minus sign removed

    @property
    def next(self) -> str:
        """The text of the next token; empty at the end."""
        return self.left[-1].group() if self.left else ""

    def take(self) -> str:
        """Take the next token and return its text; refuse the formula at its end."""
        if not self.left:
            self.refuse()
        return self.left.pop().group()

    def skip(self, sign: str) -> bool:
        """Take the next token if it is this sign, and return whether it was."""
        found = self.next == sign
        if found:
            self.left.pop()
        return found

    def refuse(self) -> NoReturn:
        """Raise an error that says at which token the formula cannot be read, with a hint."""
        where = f"{self.next!r} on (place {self.left[-1].start() + 1})" if self.left else "its end"
        hint = HINTS.get(self.next, "names are joined by + - * : and ^, and every bracket is closed.")
        raise InvalidBasis(f"it cannot be read from {where}: {hint}")

    def make(self, *terms: Term, functions: tuple[FunctionTerm, ...] = ()) -> Formula:
        """Make a part of the formula: a model of the same table with these terms and functions alone."""
        return Formula(self.dot.names, frozenset(terms), functions)

    def read_all(self, formula: str) -> Formula:
        """Read the complete formula: generators, such as ``[AB][C]``, or terms joined by operators."""
        self.left = _tokenize(formula)[::-1]
        if self.next == "[":
            groups = []
            while self.skip("["):
                words = self.read_list("]", self.take)
                groups.append(Term(k for word in words for k in _find_by_initials(_unquote(word), self.dot.names)))
            found = self.make(*groups)
        else:
            found = self.read()
        if self.left:
            self.refuse()
        return found

    def read(self, least: int = 0) -> Formula:
        """Read terms that are joined by operators of at least this precedence in `SIGNS` (precedence climbing).

        Operators associate to the left: what follows one is read with the next higher precedence. A sum may begin with
        a sign; the model before it then has no terms.
        """
        found = self.make() if least < 2 and self.next in ("+", "-") else self.read_atom()
        while (rank := SIGNS.get(self.next, -1)) >= least:
            sign = self.take()
            if sign in ("^", "**"):
                found = self.raise_to(found, self.take())
                continue
            other = self.read(rank + 1)
            if sign == "+":
                found = found + other
            elif sign == "-":
                # a term may be removed only if it, or a term that contains it, is there
                lost = [found.name(t) for t in other.terms if t and not any(t <= term for term in found.terms)]
                for name in sorted([*lost, *(str(f) for f in other.functions if f not in found.functions)]):
                    raise InvalidBasis(f"it removes {name}, which is not in it.")
                found = found - other
                self.removed |= other.terms
            else:  # a:b, or a*b, which is a + b + a:b
                joint = self.join(found, other)
                found = joint if sign == ":" else found + other + joint
        return found

    def read_atom(self) -> Formula:
        """Read the smallest unit that operators join: a name, a function, 0 or 1, a dot, or a formula in brackets."""
        if self.skip("("):
            found = self.read()
            if not self.skip(")"):
                self.refuse()
            return found
        if self.skip("0") or self.skip("1"):  # the constant, which every model has
            return self.make(Term())
        if self.skip("."):
            return self.dot
        if not re.fullmatch(NAME, self.next):
            self.refuse()
        start = self.left.pop()
        name, with_arguments = _unquote(start.group()), self.skip("(")
        if not with_arguments and name not in self.features:
            return self.make(Term([_find_variable(name, self.dot.names)]))
        args = self.read_list(")", self.read_argument) if with_arguments else []
        self.check_function(name, args)
        end = self.left[-1].start() if self.left else None  # the text of the function goes up to the next token
        text = start.string[start.start() : end].strip()
        return self.make(functions=(FunctionTerm(text, name, tuple(args)),))

    def read_list(self, end: str, read: Callable[[], Any]) -> list[Any]:
        """Read items with `read` up to the closing bracket `end`; commas between them may be left out."""
        out = []
        while not self.skip(end):
            out.append(read())
            self.skip(",")
        return out

    def read_argument(self) -> tuple[str, Any]:
        """Read an argument of a function, ``value`` or ``name=value``: its name, or an empty one, and its value."""
        value = self.read_value()
        return (str(value), self.read_value()) if self.skip("=") else ("", value)

    def read_value(self) -> Any:
        """Read the value of an argument: a name, a number, or a list of these in square brackets."""
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

        A function of variables that is joined with a term has its own parameters for each level of that term. Powers
        that would list more than `most` terms are refused: they would take all memory.
        """
        if one.functions and other.functions:
            raise InvalidBasis("functions can be added, and taken for each level of a variable: a:f(b, c).")
        functions = tuple(
            replace(f, within=(*f.within, *(self.dot.names[k] for k in sorted(term))))
            for f in one.functions + other.functions
            for term in sort_terms(other.terms if one.functions else one.terms)
        )
        terms = {a | b for a in one.terms for b in other.terms}
        if len(terms) > most:
            raise InvalidBasis(f"it has more than {most:,} terms. Use a lower power.")
        return self.make(*terms, functions=functions)

    def raise_to(self, found: Formula, exponent: str) -> Formula:
        """Return all interactions of up to `exponent` terms of a formula, as R's ``^`` does; `exponent` is a token."""
        if not exponent.isdigit() or exponent == "0":
            raise InvalidBasis("a power, after ^, must be a whole number >= 1.")
        out = found
        # more factors than there are terms add nothing
        for _ in range(min(int(exponent), len(found.terms)) - 1):
            out = out + self.join(out, found)
        return out

    def check_function(self, name: str, args: Sequence[tuple[str, Any]]) -> None:
        """Refuse a function that does not exist, and arguments of the caller's own feature that are not variables."""
        if name in self.features:
            if any(key or not isinstance(value, str) for key, value in args):
                raise InvalidBasis(f"the feature {name} takes names of variables only.")
        elif name in R_WORDS:
            raise InvalidBasis(f"{name}(...) is R's: {R_WORDS[name]}")
        elif name not in ties.__all__:
            unknown = unknown_name("function", name, [*ties.__all__, *self.features])
            raise InvalidBasis(f"{unknown} A function of your own is passed as features={{{name!r}: ...}}.")
