"""The recipe of boxes that the data choose; `fitting.boxes` chooses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, cells, is_basis
from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidBasis, unknown_name
from legendre.core.types import IntArray
from legendre.data.observation import Observation

CRITERIA = ("aic", "bic")
Criterion = Literal["aic", "bic"]


@dataclass(frozen=True)
class Boxes(Basis):
    """How many boxes to grow, or by which criterion, and which cells to start from."""

    size: int | Criterion
    start: Basis | str = "empty"

    @property
    def boxed(self) -> Boxes:  # type: ignore[override]  # a constant of every other basis, itself here
        return self

    def select(self, data: Observation) -> IntArray:
        del data
        raise InvalidBasis(
            "boxes(...) stands alone: only decompose can grow it, and it cannot be combined with other bases. Give it "
            "cells to start from instead, e.g. boxes(50, start='interactions(1)')."
        )

    def __repr__(self) -> str:
        return f"boxes({self.size!r}{'' if self.start == 'empty' else f', start={self.start!r}'})"


def boxes(size: int | Criterion, *, start: Basis | str | ArrayLike = "empty") -> Basis:
    """Let the data choose boxes of cells, products of intervals, each with a factor on its probability.

    A parameter acts on the cells ``lo <= v < hi``, where either end may be left out; one of `adaptive` acts on all
    cells at or above one. It is tied over the corners of the box, see `legendre.ties`. The fit is convex and certified,
    like any other.

    Parameters
    ----------
    size
        The number of parameters, those of `start` included. Or, for counts, ``"bic"`` or ``"aic"``: boxes are added as
        long as one pays for itself, and those that do not, with all others fitted again, are dropped. A box is charged
        like a cell in `adaptive`, ``log N + 2 log M`` or 2, but M is the number of all boxes of the grid, far more than
        cells.
    start
        A basis of cells to start from. They stay in the basis and count towards `size`.

    Notes
    -----
    This goes beyond the models of the paper. A box is described by up to two cuts for each mode, a cell by one. In a
    comparison at equal numbers of parameters, say so: a box carries more information.

    See Also
    --------
    adaptive : Parameters that act on all that lies above a cell, the class of the paper.
    features : Features of your own.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.ones((6, 8)); X[2:4, 3:7] = 5
    >>> fit = ld.decompose(X, ld.boxes(1))
    >>> fit.parameters().names, fit.theta.round(6).tolist(), round(fit.kl, 12)
    (('mode 0 2 to 3, mode 1 3 to 6',), [1.609438], 0.0)
    """
    if isinstance(size, str):
        if size not in CRITERIA:
            raise InvalidBasis(unknown_name("criterion", size, CRITERIA))
    elif not is_whole(size, 1):
        raise InvalidBasis(f"boxes({size!r}): pass a number of parameters >= 1, 'bic' or 'aic'.")
    given = start if isinstance(start, str) or is_basis(start) else cells(start)
    return Boxes(size if isinstance(size, str) else int(size), given)
