"""Formulas cut into words: names, signs, numbers, brackets."""

from __future__ import annotations

import re
from typing import NamedTuple

from legendre.core.errors import InvalidBasis

NAME, NUMBER, SIGN = "name", "number", "sign"
_WORD = re.compile(
    r"""\s*(?:
    (?P<quoted>`[^`]*`|"[^"]*"|'[^']*')
    |(?P<name>[^\W\d]\w*(?:\.\w+)*)
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<sign>\*\*|[-+*:^().,~=\[\]])
    )""",
    re.VERBOSE,
)


class Word(NamedTuple):
    """A word of a formula, and where it begins."""

    kind: str
    text: str
    place: int
    quoted: bool = False


def quoted(name: str) -> str:
    """Put a name that is no plain word between backticks, or quotes if it has one of these.

    >>> quoted("age"), quoted("hair colour")
    ('age', '`hair colour`')
    """
    mark = next((mark for mark in "`\"'" if mark not in name), "`")
    return name if name.isidentifier() else f"{mark}{name}{mark}"


def words_of(formula: str) -> list[Word]:
    """Cut a formula into words.

    >>> [word.text for word in words_of("(a + `b c`)^2 - a:d")]
    ['(', 'a', '+', 'b c', ')', '^', '2', '-', 'a', ':', 'd']
    """
    words, at = [], 0
    while at < len(formula.rstrip()):
        found = _WORD.match(formula, at)
        if found is None:
            place = at + len(formula[at:]) - len(formula[at:].lstrip())
            hint = " A name that is not closed needs its second quote." if formula[place] in "`\"'" else ""
            raise InvalidBasis(
                f"the formula {formula!r} has {formula[place]!r} at place {place + 1}, which is no "
                f"sign of a formula.{hint} Put names with blanks or signs in quotes: `hair colour`."
            )
        start = found.start(found.lastgroup or 0)
        text = found.group(found.lastgroup or 0)
        if found.lastgroup == "quoted":
            words.append(Word(NAME, text[1:-1], start, quoted=True))
        else:
            words.append(Word(str(found.lastgroup), text, start))
        at = found.end()
    return words


def sides_of(formula: str) -> tuple[list[Word], list[Word]]:
    """Cut a formula into the words before ``~`` and those behind it; without one all are behind.

    >>> [[word.text for word in side] for side in sides_of("n ~ a + b")]
    [['n'], ['a', '+', 'b']]
    """
    words = words_of(formula)
    places = [i for i, word in enumerate(words) if word.kind == SIGN and word.text == "~"]
    if len(places) > 1:
        raise InvalidBasis(f"the formula {formula!r} has {len(places)} signs ~; at most one stands before the terms.")
    return (words[: places[0]], words[places[0] + 1 :]) if places else ([], words)
