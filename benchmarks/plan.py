"""Which methods run on which problems, in which set, and how long a set may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .measure import NUMPY
from .problems import FACES, LEVELS, PROBLEMS, Problem

SECONDS = {"quick": 55.0, "default": 570.0, "full": 7200.0}
"""Seconds after which no measurement of a set is started; those left are marked SKIPPED."""
REPEAT_SECONDS = {"quick": 0.5, "default": 3.0, "full": 5.0}
"""Seconds, about, for the repeats of one measurement."""
LIMIT_FACTOR = {"quick": 0.2, "default": 1.0, "full": 4.0}
"""Factor on a problem's time limit."""


@dataclass(frozen=True)
class Match:
    """Methods to run on a problem from a level on."""

    problem: str
    methods: tuple[str, ...]
    level: str = "default"


MATCHES = (
    Match("100^3 B3(1)", (NUMPY, "cp", "cp-random", "tucker", "cp-apr"), "quick"),
    Match("200^3 B3(1)", (NUMPY, "cp", "cp-random", "tucker", "cp-apr")),
    Match("200^3 B3(30)", (NUMPY, "cp-random", "tucker-hals")),
    Match("500^3 B3(1)", ("cp-random", "tucker")),
    Match("50^3 B3(1)", (NUMPY, "cp", "cp-random", "tucker", "cp-apr")),
    Match("300^3 B3(1)", (NUMPY, "cp-random", "tucker")),
    Match("20^3 B3(1)", (NUMPY, "cp", "cp-random", "tucker", "cp-apr")),
    Match("20^3 B3(20)", (NUMPY,)),
    Match("20^3 B3(40)", (NUMPY,)),
    Match("50^3 B3(1) to 1e-9", (NUMPY,)),
    Match("50^3 B3(20) to 1e-9", (NUMPY, "cp-random", "tucker-hals", "cp-apr")),
    Match("50^3 B3(100) to 1e-9", (NUMPY,)),
    Match(FACES.name, ("cp", "cp-random", "tucker-hals", "cp-apr")),
    Match("200^3 B3(30)", ("cp", "cp-apr"), "full"),
    Match("300^3 B3(1)", ("cp", "cp-apr"), "full"),
    Match("400^3 B3(1)", ("cp-random", "tucker"), "full"),
    Match("500^3 B3(1)", (NUMPY, "cp", "cp-apr"), "full"),
)

DETERMINISM = {
    "quick": ("20^3 B3(20)", "100^3 B3(1)"),
    "default": (
        "20^3 B3(20)",
        "100^3 B3(1)",
        "200^3 B3(1)",
        "50^3 B3(20) to 1e-9",
        "50^3 B3(400) to 1e-9",
        "29^4 interactions(2)",
        FACES.name,
    ),
}


COMPILED = {
    "quick": ("20^3 B3(20)", "100^3 B3(1)", "29^4 interactions(2)"),
    "default": ("20^3 B3(20)", "100^3 B3(1)", "29^4 interactions(2)", "500^3 B1", "50^3 B3(400) to 1e-9"),
}


def compiled(level: str) -> list[Problem]:
    """List problems that between them need all compiled code of a set."""
    return [PROBLEMS[name] for name in COMPILED.get(level, COMPILED["default"])]


def matches(level: str) -> Iterator[tuple[str, Problem]]:
    """List the pairs of peer and problem of a set, the most important first."""
    for match in MATCHES:
        if LEVELS.index(match.level) <= LEVELS.index(level):
            for method in match.methods:
                yield method, PROBLEMS[match.problem]


def determinism(level: str) -> list[Problem]:
    """List the problems of a set that are checked for equal answers."""
    return [PROBLEMS[name] for name in DETERMINISM.get(level, DETERMINISM["default"])]
