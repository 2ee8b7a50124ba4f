"""The recipe of a basis that the data choose; `fitting.growing` makes the choice, because that needs fits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from legendre.basis.basis import Basis, BasisLike, cells
from legendre.core.arguments import check_int, check_name
from legendre.core.errors import InvalidBasis
from legendre.core.types import IntArray
from legendre.data.observation import Observation

Criterion = Literal["aic", "bic", "cv"]


@dataclass(frozen=True)
class Adaptive(Basis):
    """The recipe of a growing basis: the arguments of `adaptive` or `boxes`, which describe them."""

    n: int | Criterion
    include: Basis | str = "empty"
    candidates: Basis | str | None = None
    swaps: int | None = None  # None: 1, except for a small basis, which is grown beyond its size and cut back instead
    folds: int = 5
    max_params: int | None = None  # the largest number of parameters if a criterion chooses it
    boxed: bool = False  # whether boxes are chosen, not cells

    @property
    def growing(self) -> Adaptive:  # type: ignore[override]  # None for every other basis
        """The recipe itself: callers that must grow a basis before they fit it look here."""
        return self

    @property
    def name(self) -> str:
        """The name of the public function that makes it."""
        return "boxes" if self.boxed else "adaptive"

    def select(self, data: Observation) -> IntArray:
        """Raise InvalidBasis: the cells are found by fits, which only `decompose` makes; it looks at `growing`."""
        del data
        raise InvalidBasis(
            f"{self.name}(...) stands alone: only decompose can grow it, and it cannot be combined with other bases. "
            f"Give it a basis to include instead, e.g. {self.name}(500, include='B1')."
        )

    def __repr__(self) -> str:
        # as the caller wrote it: only options that differ from their defaults; `boxed` shows in the name
        options = ((field.name, getattr(self, field.name), field.default) for field in fields(self)[1:-1])
        given = "".join(f", {name}={value!r}" for name, value, usual in options if value != usual)
        return f"{self.name}({self.n!r}{given})"


def adaptive(
    n: int | Criterion,
    *,
    include: BasisLike = "empty",
    candidates: BasisLike | None = None,
    swaps: int | None = None,
    folds: int = 5,
    max_params: int | None = None,
) -> Basis:
    """Let the data choose the basis, a few cells at a time.

    Each candidate cell is scored by how much its parameter would lower KL(P, Q) after all others are refitted, to
    second order: ``g^2 / (2 s)``, where g is ``eta_hat - eta`` and s the variance of the cell's feature given those of
    the basis. A round adds a tenth of the cells, each scored given those before it, so that near-duplicates are left
    out. Up to 500 parameters the basis is grown to 1.5 times that number, and the least useful cells are dropped again.
    In a larger one the least useful cells are replaced by better ones at the end.

    Parameters
    ----------
    n
        The number of parameters, or how to choose it.

        For counts, ``"bic"`` and ``"aic"`` keep a cell only if the criterion is higher without it, after all others are
        refitted. ``"bic"`` is the extended criterion, whose penalty is ``log N + 2 log M`` for each parameter because
        the best of M candidates is taken (Chen and Chen 2008); it finds almost nothing in pure noise. The penalty of
        ``"aic"`` is 2 for each, and it overfits easily.

        ``"cv"`` cross-validates: it splits the events into `folds` and takes the size whose fits give held-out events
        the largest likelihood. It predicts well but keeps some spurious cells. If X has fractions, cells are held out
        instead of events, and the loss is the I-divergence (the squared error if X has zeros). ``fit.path`` has the
        losses with their standard errors.

        If n is a number, cells may be chosen above which X is empty, and Q is then 0 there; so may they for ``"cv"`` if
        X has fractions. For counts, the criteria do not consider such cells.
    include
        A basis whose cells are in every basis that is tried; they count towards `n`.
    candidates
        The cells to choose from, as a basis; by default all of the support.
    swaps
        The largest number of times that a share of the cells is dropped and chosen again, as long as that improves the
        fit: at the end, and for a criterion also while growing. 0 is fastest. Default: 1; but up to 500 parameters, the
        basis is instead grown to 1.5 times n and then cut back.
    folds
        For ``"cv"``: the number of parts that the events or cells are split into.
    max_params
        For ``"bic"``, ``"aic"`` and ``"cv"``: the largest number of parameters.

    See Also
    --------
    decompose : Fit X by a model with some basis.
    interactions : All that sets of modes do together.
    legendre.results.GrowthStep : One stage of a basis that grows.

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
    n = _read_size("adaptive", n, ("aic", "bic", "cv"))
    if swaps is not None:
        swaps = check_int(swaps, "adaptive: swaps", error=InvalidBasis)
    folds = check_int(folds, "adaptive: folds", 2, InvalidBasis)
    if max_params is not None:
        max_params = check_int(max_params, "adaptive: max_params", 1, InvalidBasis)
        if not isinstance(n, str):
            raise InvalidBasis(f"adaptive({n}, max_params={max_params}): max_params is the limit of a criterion.")
    among = None if candidates is None else _read_cells(candidates)
    return Adaptive(n, _read_cells(include), among, swaps, folds, max_params)


def boxes(n: int | Literal["aic", "bic"], *, include: BasisLike = "empty") -> Basis:
    """Let the data choose boxes of cells, products of intervals, each with a factor on its probability.

    A parameter acts on the cells ``lo <= v < hi``, where either end may be left out; one of `adaptive` acts on all
    cells at or above one. It is tied over the corners of the box, see `legendre.ties`. The fit is convex and certified,
    like any other.

    Parameters
    ----------
    n
        The number of parameters, those of `include` too. Or, for counts, ``"bic"`` or ``"aic"``: boxes are added while
        each lowers the criterion, and dropped if they no longer do after all others are refitted. The penalty is that
        of `adaptive`, ``log N + 2 log M`` or 2, but M is the number of all boxes of the grid, which is far larger than
        that of cells.
    include
        A basis of cells that are in every basis that is tried; they count towards `n`.

    Notes
    -----
    This goes beyond the models of the paper. A box is described by up to two cuts for each mode, a cell by one, so a
    box carries more information. Say so when you compare fits with equal numbers of parameters.

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
    return Adaptive(_read_size("boxes", n, ("aic", "bic")), _read_cells(include), boxed=True)


def _read_cells(basis: BasisLike) -> Basis | str:
    """Check a basis that a recipe contains; a string is kept as it is, and read when the basis grows."""
    return basis if isinstance(basis, (str, Basis)) else cells(basis)


def _read_size(name: str, n: int | Criterion, criteria: tuple[Criterion, ...]) -> int | Criterion:
    """Check the argument `n` of the builder `name`: a positive number of parameters, or one of the `criteria`."""
    if not isinstance(n, str):
        return check_int(n, f"{name}: the number of parameters", 1, InvalidBasis)
    check_name("criterion", n, criteria, InvalidBasis)
    return n
