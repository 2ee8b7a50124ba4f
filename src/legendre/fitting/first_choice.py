"""A first fit without choices: which basis to take where the caller names none, and why.

Counts are described by a basis that grows while a criterion says that a cell pays for itself. For everything else it
grows to a size within reach, and of that path so much is kept that twice as many cells would add little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from legendre.basis.adaptive import Adaptive, adaptive
from legendre.basis.basis import Basis
from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.memory import size_name
from legendre.data.observation import Observation
from legendre.fitting.adaptive.coarse import divisible, too_large
from legendre.results.decomposition import Decomposition
from legendre.results.growth_path import Round
from legendre.results.inference.criteria import rounds_judged

LITTLE = 0.03  # of KL without parameters: half of a basis does as well if KL is higher by less than this share
NOTHING = 1e-12  # KL of a tensor that is the same everywhere, but for rounding
SHARE = 4  # cells of the sample space for each parameter, at least, where no criterion limits their number


def first_basis(data: Observation) -> Basis:
    """Choose a basis by the size of X and by whether it holds counts; nothing is fitted.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> first_basis(observe([[4, 1], [2, 5]])), first_basis(observe([[0.4, 0.1, 0.2], [0.2, 0.5, 0.3]]))
    (adaptive('bic', most=256), adaptive(1))
    """
    most = _most(data)
    if most < limits.FIRST_LEAST or not _grows(data):
        return interactions(_order(data))
    if data.counts:
        return adaptive("bic", most=most)
    return adaptive(max(1, min(most, data.support.n_cells // SHARE)))


def explained(fit: Decomposition, recipe: Basis) -> Decomposition:
    """Cut a basis that `first_basis` chose to the size at which its gain flattens, and say why it is what it is."""
    growing = recipe.growing
    if growing is None:
        return replace(fit, reason=_why_interactions(fit))
    if isinstance(growing.size, str) and fit.n_params < (growing.most or 0):
        return replace(fit, reason=_why_criterion(fit))
    return _cut(fit, growing)


def flat_size(path: Sequence[Round]) -> int:
    """Halve the number of parameters, along the rounds of a path, while that raises KL by less than `LITTLE`.

    >>> path = [Round(n, kl, 0.0, 0.0, 0.0) for n, kl in [(0, 1.0), (6, 0.5), (12, 0.2), (24, 0.18), (48, 0.16)]]
    >>> flat_size(path), flat_size(path[:2])
    (12, 6)
    """
    kept = path[0] if path[0].kl < NOTHING else path[-1]
    while kept.n_params:
        half = [step for step in path if 2 * step.n_params <= kept.n_params][-1]
        if half.kl - kept.kl >= LITTLE * path[0].kl:
            break
        kept = half
    return kept.n_params


def _cut(fit: Decomposition, growing: Adaptive) -> Decomposition:
    n, most = flat_size(fit.path), fit.n_params
    if n == most:
        return replace(fit, reason=_why_all(fit, growing))
    part = fit.at(n)
    path = (*(step for step in fit.path if step.n_params < n), Round.measured(n, part.kl, part.rmse, part.total))
    reason = "X is the same in every cell, which takes no parameter."
    if n:
        reason = (
            f"grown to {_parameters(most)}, then halved while that raised KL by less than {100 * LITTLE:g} % of "
            f"{fit.path[0].kl:.4g}, its value without parameters: {n} are left."
        )
    return replace(part, recipe=f"{growing!r}.at({n})", path=rounds_judged(path, part), reason=reason)


def _why_criterion(fit: Decomposition) -> str:
    return f"X holds counts: grown while each parameter lowered the extended BIC, which ended at {fit.n_params}."


def _why_all(fit: Decomposition, growing: Adaptive) -> str:
    if isinstance(growing.size, int) and fit.n_params < growing.size:
        return f"grown until no cell was left that lowers KL, at {_parameters(fit.n_params)}."
    more = f"'bic', most={2 * fit.n_params}" if isinstance(growing.size, str) else str(2 * growing.size)
    return (
        f"grown to {_parameters(fit.n_params)}, the most for a first look at an X of this size; KL was still falling. "
        f"For more: adaptive({more})."
    )


def _why_interactions(fit: Decomposition) -> str:
    what = "each pair of levels" if fit.recipe == repr(interactions(2)) else "each level"
    size = f"{size_name(math.prod(fit.shape))} cells, {len(fit.shape)} modes"
    return f"X is too large to grow a basis on within a minute ({size}): this one keeps the sum over {what} as it is."


def _parameters(n: int) -> str:
    return "1 parameter" if n == 1 else f"{n} parameters"


def _most(data: Observation) -> int:
    """Return the largest number of parameters that grow in less than a minute: rounds sweep all cells, or all boxes."""
    cells = math.prod(data.shape)
    return min(limits.FIRST_SIZE, limits.FIRST_WORK // (min(cells, limits.COARSE_BOXES) if too_large(data) else cells))


def _grows(data: Observation) -> bool:
    """Return whether `coarsen` can cut the grid of a tensor that is not in memory: into two parts for each mode."""
    return data.whole or divisible(data.shape)


def _order(data: Observation) -> int:
    """Return 2 if all pairs of modes have few parameters and the grid few cells, else 1."""
    free = [length - 1 for length in data.shape]
    pairs = (sum(free) ** 2 - sum(n * n for n in free)) // 2
    few = sum(free) + pairs <= limits.FIRST_PAIRS and math.prod(data.shape) <= limits.FIRST_PAIR_CELLS
    return 2 if few else 1
