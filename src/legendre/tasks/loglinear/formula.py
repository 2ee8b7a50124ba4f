"""Formulas of log-linear models: R's words for terms, generators in brackets, and lists of names.

A formula is read to a set of terms, each a set of variables, and to functions of variables, such as ``uniform(a, b)``,
that stand for features of their own: see `functions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from legendre.core.arguments import entries
from legendre.core.errors import InvalidBasis
from legendre.tasks.loglinear.functions import FunctionTerm, called
from legendre.tasks.loglinear.generators import generators_of, resolved
from legendre.tasks.loglinear.words import NAME, NUMBER, Word, sides_of

Term = frozenset[str]
MOST_TERMS = 100_000  # terms that a formula may stand for


@dataclass(frozen=True)
class Model:
    """What a formula stands for."""

    terms: frozenset[Term]
    functions: tuple[FunctionTerm, ...] = ()
    removed: frozenset[Term] = frozenset()

    def __add__(self, other: Model) -> Model:
        functions = (*self.functions, *(f for f in other.functions if f not in self.functions))
        return Model(self.terms | other.terms, functions, self.removed - other.terms)

    def __sub__(self, other: Model) -> Model:
        functions = tuple(f for f in self.functions if f not in other.functions)
        return Model(self.terms - other.terms, functions, self.removed | other.terms)

    def without(self, names: Sequence[str]) -> Model:
        """Leave variables out of every term."""
        terms = frozenset(term - set(names) for term in self.terms)
        removed = frozenset(term for term in self.removed if not term & set(names))
        return Model(terms - {frozenset()}, self.functions, removed - terms if names else removed)

    def joined(self, other: Model, formula: str) -> Model:
        """Return the terms of both, each with each: what ``:`` does."""
        if self.functions or other.functions:
            raise InvalidBasis(f"the formula {formula!r}: functions of variables can be added, not multiplied.")
        return Model(_limited({one | two for one in self.terms for two in other.terms}, formula))


def read_formula(
    formula: Any,
    names: Sequence[str],
    features: Mapping[str, Any] | None = None,
    dropped: Sequence[str] = (),
    dot: Model | None = None,
) -> Model:
    """Read a formula over some variables; a list of names, or of lists of names, is one of generators.

    `features` are functions of one's own, by the names that they have in the formula. Variables that were `dropped`, as
    they have a single level, may be named, and change nothing. A `dot` stands for all variables, or for a model.

    >>> sorted("".join(sorted(term)) for term in read_formula("(a + b + c)^2 - a:b", "abc").terms)
    ['a', 'ac', 'b', 'bc', 'c']
    """
    known = (*names, *dropped)
    if not isinstance(formula, str):
        return _listed(formula, known).without(dropped)
    words = sides_of(formula)[1]
    if not words:
        raise InvalidBasis(f"the formula {formula!r} is empty. Write '1' for a model without variables.")
    if words[0].text == "[" and not words[0].quoted:
        return Model(frozenset(generators_of(words, formula, known))).without(dropped)
    every = Model(frozenset(frozenset([name]) for name in names))
    reader = _Reader(words, formula, every if dot is None else dot, features or {}, known)
    found = reader.sum()
    reader.expect_end()
    return found.without(dropped)


def updated(old: str, formula: Any, names: Sequence[str], features: Mapping[str, Any]) -> Model:
    """Read a formula in which a dot is an old one, as in R's ``update``; before a first + or - the dot may be left out.

    >>> sorted("".join(sorted(term)) for term in updated("a*b", ". ~ . + c", "abc", {}).terms)
    ['a', 'ab', 'b', 'c']
    """
    if (left := left_side(formula)) not in (None, "."):
        raise InvalidBasis(f"the formula {formula!r} names {left!r} before ~; update keeps the counts: write '. ~'.")
    if isinstance(formula, str) and formula.lstrip()[:1] in ("+", "-"):
        formula = f". {formula}"
    return read_formula(formula, names, features, dot=read_formula(old, names, features))


def left_side(formula: Any) -> str | None:
    """Return what stands before ``~``, which a formula may have: the name of the column of counts, or a dot."""
    words = sides_of(formula)[0] if isinstance(formula, str) else []
    if len(words) > 1 or any(word.kind != NAME and word.text != "." for word in words):
        raise InvalidBasis(f"the formula {formula!r}: before ~ stands the name of a column of counts, or nothing.")
    return words[0].text if words else None


def names_in(formula: Any) -> list[str] | None:
    """List the names that a formula speaks of, in order; ``None`` where it means all that there are (a dot)."""
    if not isinstance(formula, str):
        listed = [[item] if isinstance(item, str) else list(item) for item in entries(formula) or []]
        return list(dict.fromkeys(str(name) for group in listed for name in group))
    words = sides_of(formula)[1]
    bracketed = bool(words) and words[0].text == "["
    if bracketed or any(word.text == "." and word.kind != NAME for word in words):
        return None
    called = {i for i, word in enumerate(words[:-1]) if words[i + 1].text == "(" and word.kind == NAME}
    keys = {i for i, word in enumerate(words[:-1]) if words[i + 1].text == "="}
    return list(
        dict.fromkeys(word.text for i, word in enumerate(words) if word.kind == NAME and i not in called | keys)
    )


def _listed(formula: Any, names: Sequence[str]) -> Model:
    listed = entries(formula)
    if listed is None:
        raise InvalidBasis(
            f"a model is a formula such as 'a*b + c', '[ab][c]', or a list of generators such as [['a', 'b'], ['c']]; "
            f"got {formula!r}."
        )
    groups = [[item] if isinstance(item, str) else entries(item) or [] for item in listed]
    return Model(frozenset(frozenset(resolved(str(name), names) for name in group) for group in groups if group))


class _Reader:
    """A formula, read from left to right: sums of products of powers."""

    def __init__(
        self,
        words: list[Word],
        formula: str,
        dot: Model,
        features: Mapping[str, Any],
        known: tuple[str, ...],
    ) -> None:
        self.words, self.formula, self.at = words, formula, 0
        self.dot, self.features, self.known = dot, features, known

    def sign(self) -> str:
        """Return the sign that comes next; empty if it is none."""
        if self.at >= len(self.words) or self.words[self.at].kind in (NAME, NUMBER):
            return ""
        return self.words[self.at].text

    def take(self) -> Word:
        if self.at >= len(self.words):
            raise InvalidBasis(f"the formula {self.formula!r} ends too early: a name is missing.")
        self.at += 1
        return self.words[self.at - 1]

    def expect(self, text: str) -> None:
        word = self.take() if self.at < len(self.words) else None
        if word is None or word.text != text or word.kind in (NAME, NUMBER):
            found = "the end" if word is None else repr(word.text)
            raise InvalidBasis(f"the formula {self.formula!r} has {found} where {text!r} should stand.")

    def expect_end(self) -> None:
        if self.at < len(self.words):
            word = self.words[self.at]
            raise InvalidBasis(
                f"the formula {self.formula!r} cannot be read from {word.text!r} on (place {word.place + 1}); terms "
                "are joined by + - * : and ^."
            )

    def sum(self) -> Model:
        minus = self.sign() == "-"
        if self.sign() in ("-", "+"):
            self.take()
        found = Model(frozenset()) - self.product() if minus else self.product()
        while (sign := self.sign()) in ("+", "-"):
            self.take()
            found = found + self.product() if sign == "+" else self.without(found, self.product())
        return found

    def without(self, found: Model, other: Model) -> Model:
        """Take terms away; those that are not there are probably misspelt."""
        for term in sorted(other.terms, key=sorted):
            if term and not any(term <= own for own in found.terms):
                raise InvalidBasis(
                    f"the formula {self.formula!r} takes {':'.join(sorted(term))} away, which is not in it."
                )
        for function in other.functions:
            if function not in found.functions:
                raise InvalidBasis(f"the formula {self.formula!r} takes {function} away, which is not in it.")
        return found - other

    def product(self) -> Model:
        found = self.joint()
        while self.sign() == "*":
            self.take()
            other = self.joint()
            found = found + other + found.joined(other, self.formula)
        return found

    def joint(self) -> Model:
        found = self.power()
        while self.sign() == ":":
            self.take()
            found = found.joined(self.power(), self.formula)
        return found

    def power(self) -> Model:
        found = self.atom()
        if self.sign() in ("^", "**"):
            self.take()
            word = self.take()
            if word.kind != NUMBER or "." in word.text or int(word.text) < 1:
                raise InvalidBasis(f"the formula {self.formula!r}: a power is a whole number, not {word.text!r}.")
            found = self.raised(found, int(word.text))
        return found

    def raised(self, found: Model, power: int) -> Model:
        """Return all interactions of up to so many terms."""
        if found.functions:
            raise InvalidBasis(f"the formula {self.formula!r}: functions of variables have no powers.")
        terms = sorted(found.terms, key=sorted)
        out: set[Term] = set()
        for size in range(1, min(power, len(terms)) + 1):
            out |= {frozenset().union(*some) for some in combinations(terms, size)}
            _limited(out, self.formula)
        return Model(frozenset(out))

    def atom(self) -> Model:
        word = self.take()
        if word.kind == NUMBER:
            if word.text in ("0", "1"):
                return Model(frozenset([frozenset()]))
            raise InvalidBasis(f"the formula {self.formula!r} has the number {word.text} where a name should stand.")
        if word.kind == NAME:
            if self.sign() == "(" and not word.quoted:
                return self.function(word)
            if word.text in self.features:
                return Model(frozenset(), (called(word.text, (), (), self.features, self.formula),))
            return Model(frozenset([frozenset([resolved(word.text, self.known)])]))
        if word.text == ".":
            return self.dot
        if word.text == "(":
            found = self.sum()
            self.expect(")")
            return found
        raise InvalidBasis(
            f"the formula {self.formula!r} has {word.text!r} at place {word.place + 1}, where a name should stand."
        )

    def function(self, word: Word) -> Model:
        """Read a function of variables and its arguments: names, numbers, lists, and keywords."""
        self.expect("(")
        args: list[Any] = []
        keywords: list[tuple[str, Any]] = []
        while self.sign() != ")":
            following = self.words[self.at + 1].text if self.at + 1 < len(self.words) else ""
            if following == "=":
                key = self.take().text
                self.expect("=")
                keywords.append((key, self.argument()))
            else:
                args.append(self.argument())
            if self.sign() == ",":
                self.take()
        self.expect(")")
        term = called(word.text, tuple(args), tuple(keywords), self.features, self.formula)
        return Model(frozenset(), (term,))

    def argument(self) -> Any:
        word = self.take()
        if word.text == "-" and word.kind not in (NAME, NUMBER):
            return -self.argument()
        if word.kind == NUMBER:
            return float(word.text) if "." in word.text else int(word.text)
        if word.kind == NAME:
            return word.text
        if word.text != "[":
            raise InvalidBasis(f"the formula {self.formula!r} has {word.text!r} among the arguments of a function.")
        listed = []
        while self.sign() != "]":
            listed.append(self.argument())
            if self.sign() == ",":
                self.take()
        self.expect("]")
        return tuple(listed)


def _limited(terms: set[Term], formula: str) -> frozenset[Term]:
    if len(terms) > MOST_TERMS:
        raise InvalidBasis(f"the formula {formula!r} stands for over {MOST_TERMS:,} terms. Take a lower power.")
    return frozenset(terms)
