"""Sentences of the README and of the documentation that compare times, each judged by the rows of the race."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .rows import OURS, Row


@dataclass(frozen=True)
class Claim:
    """A sentence, and the rows that it is about."""

    place: str  # the page, from the root of the project
    words: str  # as they stand there
    problem: str
    faster: str  # this method takes less time
    slower: str  # than this one; or does not get there
    factor: float = 1.0  # by so much at least


CLAIMS = (
    Claim("docs/guides/balancing.md", "Plain proportional fitting in ten lines of NumPy is faster on an easy cube",
          "100^3, all two-way margins", "plain NumPy", OURS),
    Claim("docs/guides/balancing.md", "faster than POT on matrices", "1000x1000 lognormal, sigma 4", OURS, "POT"),
    Claim("docs/guides/large.md", "faster than mbi", "lattice 5 x 20, binary, strong", OURS, "mbi"),
    Claim("docs/start/coming-from-pot.md", "shows where plain NumPy is faster",
          "100^3, all two-way margins", "plain NumPy", OURS),
)  # fmt: skip
WORDS = ("faster", "slower", "times as fast", "times as long", "times faster")
"""A line with one of these is a claim and has to be listed."""


@dataclass(frozen=True)
class Verdict:
    """A claim, what was measured, and whether it holds."""

    place: str
    claim: str
    measured: str
    holds: str


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Judge every claim."""
    return [_judged(claim, rows) for claim in CLAIMS]


def _judged(claim: Claim, rows: Sequence[Row]) -> Verdict:
    found = {row.method: row for row in rows if row.problem == claim.problem}
    fast, slow = found.get(claim.faster), found.get(claim.slower)
    inside = claim.place.removeprefix("docs/")
    name = inside if inside == claim.place else f"[{inside}](../{inside})"
    said = f"{claim.words} ({claim.problem})"
    if fast is None or slow is None or fast.seconds is None or slow.seconds is None:
        return Verdict(name, said, "not measured", "-")
    ratio = slow.seconds / fast.seconds
    measured = f"{claim.slower} takes {ratio:.2g} x as long as {claim.faster}"
    if not slow.counts:
        return Verdict(name, said, f"{measured}, and is {slow.status}", "yes" if fast.counts else "NO")
    return Verdict(name, said, measured, "yes" if fast.counts and ratio >= claim.factor else "NO")
