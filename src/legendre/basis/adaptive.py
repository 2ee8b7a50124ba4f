"""The recipe of a basis that the data choose; `fitting.adaptive` chooses, because it needs fits on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, cells, is_basis
from legendre.core.arguments import is_real, is_whole
from legendre.core.errors import InvalidBasis, unknown_name
from legendre.core.types import IntArray
from legendre.data.observation import Observation

CRITERIA = ("aic", "bic", "cv")
Criterion = Literal["aic", "bic", "cv"]
FOLDS = 5


@dataclass(frozen=True)
class Adaptive(Basis):
    """What to grow: how large or by which criterion, from which basis, out of which cells, and with how much care."""

    size: int | Criterion
    start: Basis | str = "empty"
    candidates: Basis | str | None = None
    swaps: int | None = None  # None: one, but for a basis that is grown past its size
    overshoot: float | None = None  # times its size; None: by the size, where `swaps` is not given
    folds: int = FOLDS
    most: int | None = None  # the largest number of parameters where a criterion chooses it

    @property
    def growing(self) -> Adaptive:  # type: ignore[override]  # a constant of every other basis, itself here
        return self

    def select(self, data: Observation) -> IntArray:
        del data
        raise InvalidBasis(
            "adaptive(...) stands alone: only decompose can grow it, and it cannot be combined with other bases. "
            "Give it a basis to start from instead, e.g. adaptive(500, start='B1')."
        )

    def __repr__(self) -> str:
        usual = {"start": "empty", "folds": FOLDS}  # None for the others
        names = ("start", "candidates", "swaps", "overshoot", "folds", "most")
        given = [(name, getattr(self, name)) for name in names if getattr(self, name) != usual.get(name)]
        return f"adaptive({self.size!r}{''.join(f', {name}={value!r}' for name, value in given)})"


def adaptive(
    size: int | Criterion,
    *,
    start: Basis | str | ArrayLike = "empty",
    candidates: Basis | str | ArrayLike | None = None,
    swaps: int | None = None,
    overshoot: float | None = None,
    folds: int = FOLDS,
    most: int | None = None,
) -> Basis:
    """Let the data choose the basis, a few cells at a time.

    Each candidate cell is scored by how much its parameter would lower KL(P, Q) with all others fitted again, to second
    order: ``g^2 / (2 s)``, where g is ``eta_hat - eta`` and s the variance of the cell's feature given those of the
    basis. A round adds a tenth of the cells, each scored given those before it, so that near-duplicates are left out.
    Up to 500 parameters the basis is grown to 1.5 times its size, and the least useful cells are dropped again. In a
    larger one the least useful cells are replaced by better ones, at seven tenths of the size and at the end.

    Parameters
    ----------
    size
        The number of parameters, or how to choose it.

        For counts, ``"bic"`` and ``"aic"`` keep a cell if it pays for itself: without it, with all others fitted again,
        the criterion would be higher. ``"bic"`` is the extended criterion, which charges ``log N + 2 log M`` for each
        parameter because the best of M candidates is taken (Chen and Chen 2008); it finds next to nothing in pure
        noise. ``"aic"`` charges 2 for each and overfits readily.

        ``"cv"`` cross-validates: it splits the events into `folds` and takes the size whose fits give held-out events
        the largest likelihood. It predicts well, and keeps some false cells. If X has fractions, cells are held out
        instead of events, and the loss is the I-divergence (the squared error if X has zeros). ``fit.path`` has the
        losses with their standard errors.

        A number may choose cells above which X is empty, and so may ``"cv"`` if X has fractions; Q is then 0 there. For
        counts the criteria do not consider such cells.
    start
        A basis to start from. Its cells stay in the basis and count towards `size`.
    candidates
        The cells to choose from, as a basis; by default all of the support.
    swaps
        The largest number of times, while growing and again at the end, that a share of the cells is dropped and chosen
        anew, as long as that pays. Default 1, or 0 if the basis is grown past its size; 0 is fastest.
    overshoot
        Grow to this many times the size before cells are dropped, e.g. 1.5. Default: 1.5 up to 500 parameters; 1 (not
        at all) for more, or if `swaps` is given. Not used by a criterion.
    folds
        For ``"cv"``: the number of parts that the events or cells are split into.
    most
        For ``"bic"``, ``"aic"`` and ``"cv"``: the largest number of parameters.

    See Also
    --------
    decompose : Fit X by a model with some basis.
    interactions : All that sets of modes do together.
    legendre.results.Round : One stage of a basis that grows.

    Notes
    -----
    Cells of ``fit.basis`` are in the order in which they were chosen. ``fit.order()`` sorts them by importance, and
    ``fit.at(n)`` is the exact fit with the n most important ones.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.ones((6, 6)); X[3:, 2:] = 5
    >>> fit = ld.decompose(X, ld.adaptive(1))
    >>> fit.basis.tolist(), round(fit.kl, 12)
    ([[3, 2]], 0.0)
    """
    if isinstance(size, str):
        if size not in CRITERIA:
            raise InvalidBasis(unknown_name("criterion", size, CRITERIA))
    else:
        size = _whole(size, 1, "pass a number of parameters >= 1, 'bic', 'aic' or 'cv'", f"{size!r}")
    if swaps is not None:
        swaps = _whole(swaps, 0, "swaps must be an integer >= 0", f"..., swaps={swaps!r}")
    if overshoot is not None:
        overshoot = _past(overshoot, size)
    folds = _whole(folds, 2, "folds must be an integer >= 2", f"..., folds={folds!r}")
    if most is not None:
        most = _whole(most, 1, "most must be an integer >= 1", f"..., most={most!r}")
        if not isinstance(size, str):
            raise InvalidBasis(f"adaptive({size}, most={most}): most is the limit of a criterion; {size} is the size.")
    among = None if candidates is None else _fixed(candidates)
    return Adaptive(size, _fixed(start), among, swaps, overshoot, folds, most)


def _fixed(basis: Basis | str | ArrayLike) -> Basis | str:
    return basis if isinstance(basis, str) or is_basis(basis) else cells(basis)


def _past(overshoot: object, size: int | str) -> float:
    if not is_real(overshoot) or not 1.0 <= float(overshoot) < math.inf:
        raise InvalidBasis(f"adaptive(..., overshoot={overshoot!r}): overshoot must be a number >= 1, such as 1.5.")
    if isinstance(size, str):
        raise InvalidBasis(f"adaptive({size!r}, overshoot={overshoot!r}): a criterion has no size to grow past.")
    return float(overshoot)


def _whole(value: object, least: int, rule: str, said: str) -> int:
    if not is_whole(value, least):
        raise InvalidBasis(f"adaptive({said}): {rule}.")
    return int(value)
