"""The ladder of nested models: how much of the information each rung carries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, Cells
from legendre.basis.interactions import interactions
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.cells import cell_name, member
from legendre.core.errors import InvalidBasis
from legendre.core.memory import size_name
from legendre.core.text_table import Columns, Table, shape_name, shortened
from legendre.core.tied_parameters import Terms
from legendre.core.types import IntArray
from legendre.data.read import TensorLike, read
from legendre.fitting.decompose import decompose
from legendre.results.base import Storable
from legendre.results.inference.counts import chi_square_p
from legendre.results.inference.likelihood_ratio import added_parameters
from legendre.results.inference.printout import shown

NAMED = 60
"""Characters of a basis' name in the table; longer ones lose their middle."""
NOTHING = 1e-14
"""A divergence from the uniform below this is the rounding error of the two sums whose difference it is."""


@dataclass(frozen=True)
class Rung:
    """One model of the ladder, and what it adds to the one below.

    Parameters
    ----------
    basis
        The recipe of B.
    n_params
        The size of B.
    kl
        KL(P, Q) for the projection Q onto this model.
    explained
        The difference to the rung below: by Pythagoras KL(Q, Q'), Q' being the projection there.
    share
        `explained` over the whole, KL(P, Q) on the ground; NaN where P is the ground itself.
    g2
        For counts ``2 N explained``, the likelihood ratio statistic against the rung below; otherwise ``None``.
    df
        Its degrees of freedom: the independent parameters that this rung adds on the cells to which the rung below
        gives probability, as in `likelihood_ratio`.

    See Also
    --------
    legendre.geometry.Ladder : What `ladder` returns.
    legendre.geometry.ladder : How much each model of a chain explains.

    Examples
    --------
    >>> import legendre as ld
    >>> rung = ld.geometry.ladder([[10, 20], [30, 15]]).rungs[0]
    >>> rung.basis, rung.n_params, rung.df
    ('interactions(1)', 2, 2)
    """

    basis: str
    n_params: int
    kl: float
    explained: float
    share: float
    g2: float | None
    df: int

    @property
    def p_value(self) -> float | None:
        """For counts the chi-square probability of a `g2` at least this large; NaN without degrees of freedom."""
        return None if self.g2 is None else chi_square_p(self.g2, self.df)


@dataclass(frozen=True)
class Ladder(Storable):
    """The rungs from the ground (no parameter) upwards; `explained` and what is left sum to KL(P, uniform).

    Parameters
    ----------
    shape, total
        The shape of X and its sum over the support.
    ground
        What stands on the ground: ``"uniform"``, or ``"base"`` if there is a base measure.
    total_kl
        KL(P, uniform on the support): the whole.
    rungs
        One `Rung` per basis.

    See Also
    --------
    legendre.geometry.ladder : How much each model of a chain explains.
    legendre.geometry.Rung : One model of a ladder.
    legendre.geometry.plot_ladder : Draw a ladder.

    Examples
    --------
    >>> import legendre as ld
    >>> steps = ld.geometry.ladder([[10, 20], [30, 15]])
    >>> steps.ground, len(steps.rungs)
    ('uniform', 2)
    """

    shape: tuple[int, ...]
    total: float
    ground: str
    total_kl: float
    rungs: tuple[Rung, ...]

    @property
    def left(self) -> float:
        """KL(P, Q) on the top rung: what no rung explains."""
        return self.rungs[-1].kl

    def tables(self) -> list[Table]:
        """List a row for each rung, the ground first."""
        # six digits of the whole, and as many decimals below it: a column to add up
        places = max(0, 5 - int(np.floor(np.log10(self.total_kl)))) if self.total_kl > NOTHING else 6
        counts = any(rung.g2 is not None for rung in self.rungs)
        head = ["basis", "parameters", "KL(P, Q)", "explained", "share", *(["G2", "df", "p"] if counts else [])]
        rows = [head, [self.ground, "0", f"{self.total_kl:.{places}f}"]]
        for rung in self.rungs:
            kl, explained = f"{rung.kl:.{places}f}", f"{rung.explained:.{places}f}"
            row = [shortened(rung.basis, NAMED), f"{rung.n_params:,}", kl, explained, f"{100 * rung.share:.2f} %"]
            if rung.g2 is not None and rung.p_value is not None:
                row += [f"{rung.g2:.3f}", size_name(rung.df), shown(rung.p_value) if rung.df > 0 else ""]
            rows.append(row)
        title = f"KL ladder of {shape_name(self.shape)}, sum {self.total:.6g}"
        return [Columns(title, rows, "<>")]


def ladder(
    X: TensorLike,
    bases: Sequence[Basis | str | ArrayLike] | None = None,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
) -> Ladder:
    """Measure how much of KL(P, uniform) each of several nested models explains.

    Parameters
    ----------
    X
        A nonnegative tensor of any kind that `decompose` takes: dense, sparse, a dask array, on a device.
    bases
        Bases, each contained in the next; by default ``interactions(1)`` up to X's order: what single modes carry, what
        pairs add, and so on.
    support, base
        As in `decompose`. With a base measure it takes the place of the uniform distribution.

    See Also
    --------
    legendre.geometry.Ladder : What `ladder` returns.
    legendre.geometry.plot_ladder : Draw a ladder.
    legendre.likelihood_ratio : Test a small model against a larger one.

    Examples
    --------
    >>> print(ladder([[[911, 538], [44, 456]], [[3, 43], [2, 279]]]).summary())
    KL ladder of 2x2x2, sum 2276
    basis            parameters  KL(P, Q)  explained    share        G2  df       p
    uniform                   0  0.626419
    interactions(1)           3  0.282518   0.343902  54.90 %  1565.441   3  <2e-16
    interactions(2)           6  0.000082   0.282435  45.09 %  1285.646   3  <2e-16
    interactions(3)           7  0.000000   0.000082   0.01 %     0.374   1   0.541
    """
    data = read(X, support, base)
    recipes = _read(bases, data.shape)
    cells = [recipe.select(data) for recipe in recipes]
    _check_nested(recipes, cells)
    ground = decompose(data, "empty")
    kl, small, rungs = ground.kl, ground, []
    for recipe, index in zip(recipes, cells, strict=True):
        fit = decompose(data, Cells(index))
        below, kl = kl, min(fit.kl, kl)  # the projection below is in this model too: only rounding can raise KL
        explained = below - kl
        share = explained / ground.kl if ground.kl > NOTHING else float("nan")
        g2, df = 2.0 * data.total * explained if data.counts else None, added_parameters(small, Terms(index))
        rungs.append(Rung(repr(recipe), len(index), kl, explained, share, g2, df))
        small = fit
    return Ladder(data.shape, data.total, "uniform" if base is None else "base", ground.kl, tuple(rungs))


def _read(bases: Sequence[Basis | str | ArrayLike] | None, shape: tuple[int, ...]) -> list[Basis]:
    if bases is None and math.prod(shape) > limits.LARGEST_HELD:
        raise InvalidBasis(
            f"X has {size_name(math.prod(shape))} cells, so that interactions up to order {len(shape)} have too many "
            "parameters. Name nested bases, e.g. bases=[interactions(1), interactions(2)]."
        )
    if bases is None:
        return [interactions(k) for k in range(1, len(shape) + 1)]
    if not isinstance(bases, Sequence) or isinstance(bases, str) or not bases:
        raise InvalidBasis(f"bases must be a list of nested bases such as ['B1', 'B1 + B3(5)'], got {bases!r}.")
    return [as_basis(basis) for basis in bases]


def _check_nested(recipes: list[Basis], cells: list[IntArray]) -> None:
    """Refuse bases of which one is not contained in the next."""
    for (small, fewer), (large, more) in pairwise(zip(recipes, cells, strict=True)):
        lost = fewer[~member(fewer, more)]
        if len(lost):
            raise InvalidBasis(
                f"the bases are not nested: {large!r} lacks {len(lost)} of the {len(fewer)} cells of {small!r}, "
                f"which comes first, e.g. {cell_name(lost[0])}. Order them from small to large, or join them: a | b."
            )
