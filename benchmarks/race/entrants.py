"""What a discipline, a problem and an entrant are.

Nothing of the package is imported at the top of these modules: its import is part of its first call, as theirs is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Cannot(Exception):
    """An entrant has no way to do this; the message is the row's note."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem."""

    name: str
    size: int  # cells, or modes, that growth is measured against
    data: Callable[[], Any]  # makes it, always the same; not timed
    family: str = ""  # problems of one family differ in size alone
    group: str = ""  # who runs out of time on one of a group does not start on those after it
    about: Any = None  # what the discipline has to know of it


@dataclass(frozen=True, eq=False)
class Fitted:
    """An entrant's answer."""

    answer: Callable[..., Any]  # what its discipline judges, multiplied out when called; not timed
    params: int | None = None
    steps: int | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Entrant:
    """A method of a library with the settings that served it best."""

    name: str
    package: str  # that is imported
    fit: Callable[[Case, Any], Fitted]  # imports its library; timed
    prepare: Callable[[Case, Any], Any] = lambda _case, data: data  # into the form that its users have; not timed
    setting: str = ""
    compiles: bool = False  # keeps compiled code on disk
    warms: bool = False  # compiles in every process: a second call is another thing, however long the first took
    distributions: tuple[str, ...] = ()  # whose versions are listed
    only: tuple[str, ...] | None = None  # families that it enters
    ways: Mapping[str, Callable[[Case, Any], Fitted]] = field(default_factory=dict)  # of which the best is measured

    @property
    def installed(self) -> bool:
        """Whether the package can be imported."""
        return find_spec(self.package) is not None

    def enters(self, case: Case) -> bool:
        """Whether it is meant for a problem."""
        return self.only is None or case.family in self.only


@dataclass(frozen=True, eq=False)
class Discipline:
    """Problems, entrants, and how they are judged."""

    name: str
    title: str
    rules: str  # for the page
    cases: tuple[Case, ...]
    entrants: tuple[Entrant, ...]
    judge: Callable[[Case, Any, Fitted], dict[str, float]]  # residual, kl, rmse
    tol: float | None = None  # that the residual has to reach


def errors(X: Floats, Q: Floats) -> dict[str, float]:
    """Return KL of the normalised tensors and root mean square error; a negative entry counts as probability 0.

    >>> found = errors(np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    >>> found["kl"], found["rmse"]
    (0.0, 0.0)
    """
    from scipy.special import rel_entr

    q = np.maximum(Q, 0.0)
    kl = float(rel_entr(X / X.sum(), q / q.sum()).sum())
    return {"kl": max(kl, 0.0), "rmse": float(np.sqrt(np.mean(np.square(X - Q))))}
