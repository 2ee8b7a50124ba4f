"""Names of variables in formulas, and generators in brackets: ``[AB][BC]``, ``[class, sex][age]``."""

from __future__ import annotations

from collections.abc import Sequence

from legendre.core.errors import InvalidBasis, unknown_name
from legendre.tasks.loglinear.words import NAME, Word


def resolved(name: str, names: Sequence[str]) -> str:
    """Return a variable by its name; the nearest is named where there is none."""
    if name in names:
        return name
    raise InvalidBasis(unknown_name("variable", name, names))


def generators_of(words: list[Word], formula: str, names: Sequence[str]) -> list[frozenset[str]]:
    """Read generators in brackets.

    >>> from legendre.tasks.loglinear.words import words_of
    >>> [sorted(group) for group in generators_of(words_of("[CS][S, Age]"), "", ["Class", "Sex", "Age"])]
    [['Class', 'Sex'], ['Age', 'Sex']]
    """
    groups: list[frozenset[str]] = []
    inside: list[str] | None = None
    for word in words:
        sign = "" if word.kind == NAME else word.text
        if sign == "[" and inside is None:
            inside = []
        elif sign == "]" and inside:
            groups.append(frozenset(inside))
            inside = None
        elif word.kind == NAME and inside is not None:
            inside += [word.text] if word.quoted else _spelt(word.text, names, formula)
        elif not (sign in (",", ":", "*") and inside):
            raise InvalidBasis(
                f"the formula {formula!r} has {word.text!r} at place {word.place + 1}. Generators are written "
                "'[AB][BC]', or with full names '[class, sex][sex, age]'."
            )
    if inside is not None:
        raise InvalidBasis(f"the formula {formula!r} has a '[' that is not closed.")
    return [frozenset(resolved(name, names) for name in group) for group in groups]


def _spelt(text: str, names: Sequence[str], formula: str) -> list[str]:
    """Read one word of a generator: a name, or initials of names, which must tell them apart."""
    if text in names:
        return [text]
    found = []
    for letter in text:
        exact = [name for name in names if name == letter]
        begin = exact or [name for name in names if name[:1].lower() == letter.lower()]
        if len(begin) > 1:
            raise InvalidBasis(
                f"the formula {formula!r}: {letter!r} in [{text}] may be {' or '.join(begin)}. Write the names in "
                "full, with commas between them."
            )
        if not begin:
            raise InvalidBasis(
                f"the formula {formula!r}: [{text}] is no variable and no initials of some. "
                f"{unknown_name('variable', text, names)}"
            )
        found.append(begin[0])
    return found
