"""Formulas of log-linear models: R's signs for terms, generators in brackets, lists of names, functions of variables.

A formula is read to a set of terms, each a set of variables, and to functions of variables, such as ``uniform(a, b)``,
that stand for features of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from inspect import signature
from itertools import combinations
from typing import Any, NamedTuple, NoReturn, cast

from legendre.basis import ties
from legendre.basis.basis import Basis, cells, empty, is_basis
from legendre.basis.features import features as features_of
from legendre.basis.interactions import blocks, interactions
from legendre.core.arguments import entries
from legendre.core.errors import InvalidBasis, InvalidQuery, unknown_name

Term = frozenset[str]
R_WORDS = {
    "offset": "pass the factors themselves as base=exposure.",
    "I": "pass a function of levels by its name, features={'name': lambda a: ...}.",
    "factor": "every variable is a factor; name it alone.",
    "log": "pass a function of levels by its name, features={'name': lambda a: ...}.",
}
"""What to do in place of functions that formulas of R have."""
LOST = object()
"""Stands for a feature of a model that was read from a file, which does not hold it."""


@dataclass(frozen=True)
class FunctionTerm:
    """A function of variables in a formula, ``uniform(a, b)``: its name, and its arguments as they were written."""

    name: str
    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()
    feature: Any = field(default=None, compare=False, repr=False)  # the caller's own function, array or basis
    within: tuple[str, ...] = ()  # variables for each level of which it has parameters of their own

    def __str__(self) -> str:
        written = [*map(_plain, self.args), *(f"{key}={_plain(value)}" for key, value in self.keywords)]
        called = self.name if self.feature is not None and not self.args else f"{self.name}({', '.join(written)})"
        return ":".join([*map(quote, self.within), called])

    def basis(self) -> Basis:
        """Make its basis, which finds its variables by name when it sees a table."""
        if self.feature is LOST:
            raise InvalidQuery(f"the feature {self.name!r} is not in the file that this model was loaded from.")
        made: Any = self.feature
        if is_basis(made):
            if self.within:
                raise InvalidBasis(f"the formula has {self}: a basis has no parameters for each level of a variable.")
            return made
        if made is not None:
            made = features_of({str(replace(self, within=())): made}, modes=self.args or None)
            return cast(Basis, replace(made, within=self.within))
        make = getattr(ties, self.name)
        try:
            made = make(*self.args, **dict(self.keywords))
            return cast(Basis, replace(made, within=self.within))
        except TypeError:
            wanted = ", ".join(signature(make).parameters)
            raise InvalidBasis(f"the formula has {self}; write {self.name}({wanted}).") from None


@dataclass(frozen=True)
class Formula:
    """What a formula over some variables stands for."""

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
        return sorted(terms, key=lambda term: (len(term), sorted(map(self.names.index, term))))

    def name(self, term: Term) -> str:
        """Write a term as R does."""
        return ":".join(map(quote, sorted(term, key=self.names.index))) or "1"

    @property
    def generators(self) -> list[tuple[str, ...]]:
        """The largest terms, each with its variables in the order of the table."""
        largest = [sorted(t, key=self.names.index) for t in self.terms if not any(t < other for other in self.terms)]
        return [tuple(group) for group in sorted(largest, key=lambda group: list(map(self.names.index, group)))]

    def __str__(self) -> str:
        if self.hierarchical:
            parts = ["*".join(map(quote, group)) for group in self.generators]
        else:
            parts = [self.name(term) for term in self.order(self.terms)]
        return " + ".join([*parts, *map(str, self.functions)]) or "1"

    def basis(self, shape: tuple[int, ...]) -> Basis:
        """Make the basis of the model on a table."""
        modes = sorted(tuple(sorted(map(self.names.index, term))) for term in self.terms)
        if self.hierarchical and modes:
            basis: Basis = interactions([list(map(self.names.index, group)) for group in self.generators])
        else:
            basis = cells(blocks(shape, modes)) if modes else empty()
        for function in self.functions:
            basis = basis | function.basis()
        return basis


def close(terms: Iterable[Term]) -> frozenset[Term]:
    """Add to each term all that it contains."""
    parts = (part for term in terms for size in range(1, len(term) + 1) for part in combinations(sorted(term), size))
    return frozenset(map(frozenset, parts))


def quote(name: str) -> str:
    """Put a name that is no plain word between backticks, or quotes if it has one of these.

    >>> quote("age"), quote("hair colour")
    ('age', '`hair colour`')
    """
    mark = next((mark for mark in "`\"'" if mark not in name), "`")
    return name if name.isidentifier() else f"{mark}{name}{mark}"


def _plain(value: Any) -> str:
    """Write an argument so that it is read back: names in quotes where they need them, numbers without exponents."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plain, value))}]"
    return quote(value) if isinstance(value, str) else format(Decimal(repr(value)), "f")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_formula(
    formula: Any,
    names: Sequence[str],
    features: Any = None,
    *,
    known: Mapping[str, Any] | None = None,
    dot: Formula | None = None,
    hierarchical: bool = True,
) -> Formula:
    """Read a formula over some variables; a list of names, or of lists of names, is one of generators.

    `features` are functions of one's own, by the names that they have in the formula; those that are `known` before
    need not occur in it. A `dot` stands for all variables, or for a model.

    >>> sorted("".join(sorted(term)) for term in read_formula("(a + b + c)^2 - a:b", "abc").terms)
    ['a', 'ac', 'b', 'bc', 'c']
    """
    if not isinstance(features or {}, Mapping) or not all(str(name).isidentifier() for name in features or {}):
        raise InvalidBasis(
            "features must be a dict of names and functions or arrays, such as {'near': lambda a, b: abs(a - b) < 2}; "
            f"got {features!r}."
        )
    for name in features or {}:
        if name in ties.__all__ or name in names:
            what = "a variable" if name in names else "an association model"
            raise InvalidBasis(f"features: {name!r} is {what}. Give the feature another name.")
    every, own = Formula(tuple(names), frozenset(frozenset([name]) for name in names)), dict(features or {})
    if dot is not None:  # what a file does not hold may be passed anew
        dot = replace(dot, functions=tuple(replace(f, feature=own.get(f.name, f.feature)) for f in dot.functions))
    if isinstance(formula, str):
        tokens = _sides(formula)[1]
        if not tokens:
            raise InvalidBasis(f"the formula {formula!r} is empty. Write '1' for a model without variables.")
        try:
            if tokens[0].sign == "[":
                found = replace(every, terms=frozenset(_read_generators(tokens, names)))
            else:
                found = _Reader(tokens, every if dot is None else dot, {**(known or {}), **own}).read()
        except InvalidBasis as problem:
            raise InvalidBasis(f"the formula {formula!r}: {problem}") from None
        except RecursionError:
            raise InvalidBasis(f"the formula {formula[:40]!r}... has too many brackets within brackets.") from None
    else:
        groups = [[_find(str(name), names) for name in group] for group in _groups(formula)]
        found = replace(every, terms=frozenset(map(frozenset, groups)))
    for name in own.keys() - found.features.keys():
        raise InvalidBasis(
            f"the formula {formula!r} does not name the feature {name!r}. Write {name}(a, b) with the variables that "
            f"it depends on, or {name} alone if it depends on all of them, in the order of the table."
        )
    written = found.terms - {frozenset()}
    terms = close(written) if hierarchical else written
    for lost in found.order(found.removed & (terms - written))[:1]:
        above = found.name(next(term for term in found.order(written) if lost < term))
        raise InvalidBasis(
            f"the term {above} needs {found.name(lost)}, which the formula takes away. Take {above} away as well, or "
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
    tokens = _sides(formula)[0] if isinstance(formula, str) else []
    if len(tokens) > 1 or any(token.kind != "name" and token.text != "." for token in tokens):
        raise InvalidBasis(f"the formula {formula!r}: before ~ stands the name of a column of counts, or nothing.")
    return tokens[0].text if tokens else None


def names_in(formula: Any) -> list[str] | None:
    """List the names that a formula speaks of, in order; ``None`` where it means all that there are (a dot)."""
    if not isinstance(formula, str):
        return list(dict.fromkeys(str(name) for group in _groups(formula) for name in group))
    tokens = _sides(formula)[1]
    if any(token.sign == "." for token in tokens) or (tokens and tokens[0].sign == "["):
        return None
    following = [token.sign for token in tokens[1:]] + [""]
    named = [t.text for t, sign in zip(tokens, following, strict=False) if t.kind == "name" and sign not in ("(", "=")]
    return list(dict.fromkeys(named))


class _Token(NamedTuple):
    kind: str  # "name", "number", "sign" or "end"
    text: str
    place: int
    quoted: bool = False

    @property
    def sign(self) -> str:
        return self.text if self.kind == "sign" else ""


def _tokens(formula: str) -> list[_Token]:
    """Cut a formula into names, numbers and signs."""
    pattern = r"""(`[^`]*`|"[^"]*"|'[^']*')|([^\W\d]\w*(?:\.\w+)*)|(\d+(?:\.\d+)?)|(\*\*|[-+*:^().,~=\[\]])|(\S)"""
    found = []
    for match in re.finditer(pattern, formula):
        quoted, _, number, sign, other = match.groups()
        if other:
            hint = " A name that is not closed needs its second quote." if other in "`\"'" else ""
            hint = " R's a/b is a + a:b here." if other == "/" else hint
            raise InvalidBasis(
                f"the formula {formula!r} has {other!r} at place {match.start() + 1}, which is no sign of a "
                f"formula.{hint} Put names with blanks or signs in quotes: `hair colour`."
            )
        kind = "number" if number else "sign" if sign else "name"
        text = quoted[1:-1] if quoted else "^" if sign == "**" else match.group()
        found.append(_Token(kind, text, match.start() + 1, bool(quoted)))
    return found


def _sides(formula: str) -> tuple[list[_Token], list[_Token]]:
    """Return what stands before ``~`` and behind it; without one all is behind."""
    tokens = _tokens(formula)
    signs = [token.sign for token in tokens]
    if signs.count("~") > 1:
        raise InvalidBasis(
            f"the formula {formula!r} has {signs.count('~')} signs ~; at most one stands before the terms."
        )
    split = signs.index("~") if "~" in signs else -1
    return tokens[: max(split, 0)], tokens[split + 1 :]


def _groups(formula: Any) -> list[list[Any]]:
    """Read generators from a list of names and lists of names."""
    listed = entries(formula)
    if listed is None:
        raise InvalidBasis(
            f"a model is a formula such as 'a*b + c', '[ab][c]', or a list of generators such as [['a', 'b'], ['c']]; "
            f"got {formula!r}."
        )
    return [group for item in listed if (group := [item] if isinstance(item, str) else entries(item) or [])]


def _find(name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise InvalidBasis(unknown_name("variable", name, names))
    return name


def _read_generators(tokens: list[_Token], names: Sequence[str]) -> list[Term]:
    """Read generators in brackets: ``[AB][BC]`` by initials, ``[class, sex][age]`` by names."""
    groups: list[Term] = []
    inside: list[str] | None = None
    for token in tokens:
        if token.sign == "[" and inside is None:
            inside = []
        elif token.sign == "]" and inside:
            groups.append(frozenset(inside))
            inside = None
        elif token.kind == "name" and inside is not None:
            whole = token.quoted or token.text in names
            inside += [_find(token.text, names)] if whole else [_initial(c, token.text, names) for c in token.text]
        elif not (token.sign in (",", ":", "*") and inside):
            raise InvalidBasis(
                f"{token.text!r} at place {token.place}. Generators are written '[AB][BC]', or with full names "
                "'[class, sex][sex, age]'."
            )
    if inside is not None:
        raise InvalidBasis("a '[' that is not closed.")
    return groups


def _initial(letter: str, word: str, names: Sequence[str]) -> str:
    """Find the variable that begins with a letter."""
    found = [name for name in names if name == letter] or [n for n in names if n[:1].lower() == letter.lower()]
    if len(found) > 1:
        raise InvalidBasis(
            f"{letter!r} in [{word}] may be {' or '.join(found)}. Write the names in full, with commas between them."
        )
    if not found:
        raise InvalidBasis(f"[{word}] is no variable and no initials of some. {unknown_name('variable', word, names)}")
    return found[0]


class _Reader:
    """Reads sums of products of joint terms of powers, from left to right."""

    def __init__(self, tokens: list[_Token], dot: Formula, features: Mapping[str, Any]) -> None:
        self.tokens, self.at = [*tokens, _Token("end", "", 0)], 0
        self.dot, self.features, self.nothing = dot, features, Formula(dot.names)

    def read(self) -> Formula:
        found = self.chain()
        return found if self.tokens[self.at].kind == "end" else self.refuse("terms are joined by + - * : and ^")

    def refuse(self, why: str) -> NoReturn:
        """Say that the formula cannot be read from here on."""
        token = self.tokens[self.at]
        if token.kind == "end":
            raise InvalidBasis(f"it ends too early: {why}.")
        raise InvalidBasis(f"it cannot be read from {token.text!r} on (place {token.place}): {why}.")

    def skip(self, *signs: str) -> str:
        """Go past one of some signs, if it comes next, and return it."""
        sign = self.tokens[self.at].sign
        self.at += sign in signs
        return sign if sign in signs else ""

    def close(self, bracket: str) -> None:
        if not self.skip(bracket):
            self.refuse(f"{bracket!r} is missing")

    def chain(self, signs: tuple[str, ...] = ("+-", "*", ":", "^")) -> Formula:
        """Read what the first of these kinds of signs joins; its parts are joined by the others."""
        if not signs:
            return self.atom()
        minus = signs[0] == "+-" and self.skip("+", "-") == "-"
        found = self.chain(signs[1:])
        found = self.nothing - found if minus else found
        while sign := self.skip(*signs[0]):
            if sign == "^":
                found = self.power(found)
                continue
            other = self.chain(signs[1:])
            if sign == "-":
                lost = [found.name(t) for t in other.terms if t and not any(t <= own for own in found.terms)]
                for name in sorted([*lost, *(str(f) for f in other.functions if f not in found.functions)]):
                    raise InvalidBasis(f"it takes {name} away, which is not in it.")
                found = found - other
            else:
                joint = self.nothing if sign == "+" else self.join(found, other)
                found = joint if sign == ":" else found + other + joint
        return found

    def join(self, one: Formula, other: Formula, most: int = 100_000) -> Formula:
        """Return the terms of both, each with each."""
        if one.functions and other.functions:
            raise InvalidBasis("functions can be added, and taken for each level of a variable: a:f(b, c).")
        functions = tuple(
            replace(f, within=(*f.within, *(n for n in self.dot.names if n in term)))
            for f in one.functions + other.functions
            for term in self.dot.order(other.terms if one.functions else one.terms)
            if term
        )
        terms = frozenset(a | b for a in one.terms for b in other.terms)
        if len(terms) > most:
            raise InvalidBasis(f"it stands for over {most:,} terms. Take a lower power.")
        return replace(self.nothing, terms=terms, functions=functions)

    def power(self, found: Formula) -> Formula:
        """Return all interactions of up to so many terms."""
        token = self.tokens[self.at]
        if token.kind != "number" or not token.text.isdigit() or int(token.text) < 1:
            self.refuse("a power is a whole number")
        self.at += 1
        out = found
        for _ in range(min(int(token.text), len(found.terms)) - 1):
            out = out + self.join(out, found)
        return out

    def atom(self) -> Formula:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "number" and token.text in ("0", "1"):
            return replace(self.nothing, terms=frozenset([frozenset()]))
        if token.kind == "name" and not token.quoted and self.skip("("):
            return replace(self.nothing, functions=(self.function(token.text),))
        if token.kind == "name" and token.text in self.features:
            return replace(self.nothing, functions=(FunctionTerm(token.text, (), (), self.features[token.text]),))
        if token.kind == "name":
            return replace(self.nothing, terms=frozenset([frozenset([_find(token.text, self.dot.names)])]))
        if token.sign == ".":
            return self.dot
        if token.sign != "(":
            self.at -= 1
            self.refuse("a name is missing")
        found = self.chain()
        self.close(")")
        return found

    def function(self, name: str) -> FunctionTerm:
        """Read the arguments of a function of variables."""
        args: list[Any] = []
        keywords: list[tuple[str, Any]] = []
        for value in self.listed(")"):
            keywords.append((value, self.argument())) if self.skip("=") else args.append(value)
        if name in self.features:
            own = is_basis(self.features[name])
            if keywords or (args and own) or not all(isinstance(arg, str) for arg in args):
                none = ", and none where it is a basis" if own else ""
                raise InvalidBasis(f"the feature {name} takes names of variables only{none}.")
        elif name in R_WORDS:
            raise InvalidBasis(f"{name}(...) is R's: {R_WORDS[name]}")
        elif name not in ties.__all__:
            unknown = unknown_name("function", name, [*ties.__all__, *self.features])
            raise InvalidBasis(f"{unknown} A function of your own is passed as features={{{name!r}: ...}}.")
        return FunctionTerm(name, tuple(args), tuple(keywords), self.features.get(name))

    def listed(self, bracket: str) -> Iterator[Any]:
        """Read arguments one by one, up to a bracket."""
        while not self.skip(bracket):
            yield self.argument()
            if not self.skip(","):
                self.close(bracket)
                return

    def argument(self) -> Any:
        """Read a name, a number, or a list of these."""
        if self.skip("-"):
            if self.tokens[self.at].kind != "number":
                self.refuse("a minus among arguments stands before a number")
            return -self.argument()
        if self.skip("["):
            return tuple(self.listed("]"))
        token = self.tokens[self.at]
        if token.kind not in ("name", "number"):
            self.refuse("arguments of functions are names, numbers and lists")
        self.at += 1
        if token.kind == "name":
            return token.text
        return float(token.text) if "." in token.text else int(token.text)
