"""A first fit without choices: which basis to take where the caller names none, and why.

Counts are described by a basis that grows while a criterion says that a cell pays for itself. For everything else, and
for arrays of whole numbers on which the criterion finds no end, such as images, cells are held out, and the basis is
the smallest that predicts them as well as the best does, within a standard error. Where that takes too long, or X has
too few cells, or so many that a basis grows on boxes of them, the sample decides: of the path so much is kept that
twice as many cells would add little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from legendre.basis.adaptive import FOLDS, Adaptive, adaptive
from legendre.basis.basis import Basis
from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.memory import size_name
from legendre.core.progress import Say
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation
from legendre.fitting.adaptive.coarse import divisible, too_large
from legendre.fitting.adaptive.grow import LEAST_EVENTS
from legendre.fitting.adaptive.heldout import curve_of_cells, not_zero
from legendre.fitting.adaptive.stage import with_round
from legendre.fitting.fit import fit_recipe
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.results.growth_path import Round
from legendre.results.inference.criteria import rounds_judged

LITTLE = 0.03  # of KL without parameters: half of a basis does as well if KL is higher by less than this share
NOTHING = 1e-12  # KL of a tensor that is the same everywhere, but for rounding
SHARE = 4  # cells of the sample space for each parameter, at least, where no criterion limits their number
NEARLY = 0.9  # of the most parameters: a criterion that ends beyond may have ended there because of the limit
CONSTANT = "X is the same in every cell, which takes no parameter."


def first_basis(data: Observation) -> Basis:
    """Choose a basis by the size of X and by whether it holds counts; nothing is fitted.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> first_basis(observe([[4, 1], [2, 5]])), first_basis(observe([[0.4, 0.1, 0.2], [0.2, 0.5, 0.3]]))
    (adaptive('bic', most=256), adaptive(1))
    >>> import numpy as np
    >>> first_basis(observe(np.random.default_rng(0).random((8, 6))))
    adaptive('cv', most=12)
    """
    most = _most(data)
    if most < limits.FIRST_LEAST or not _grows(data):
        return interactions(_order(data))
    if data.counts:
        return adaptive("bic", most=most)
    most = max(1, min(most, data.support.n_cells // SHARE))
    return adaptive(most) if _why_none_held_out(data) else adaptive("cv", most=most)


@dataclass(frozen=True, eq=False)
class FirstLook:
    """A fit to a basis that `first_basis` chose, and what is needed to say why it is what it is."""

    data: Observation
    recipe: Basis
    fit: Decomposition
    settings: Settings
    say: Say | None = None

    def explained(self) -> Decomposition:
        """Cut the basis to the size that held-out cells, or else the sample, ask for, and say why it is what it is."""
        fit, growing = self.fit, self.recipe.growing
        if growing is None:
            return replace(fit, reason=_why_interactions(fit))
        ended = fit.n_params < NEARLY * (growing.most or 0)
        counted = self.data.entries is not None  # rows and entries surely are
        if growing.size == "bic" and (ended or counted):
            return replace(fit, reason=_why_criterion(fit) if ended else _why_criterion_and_more(fit, growing))
        if fit.path[0].kl < NOTHING:
            return self._part(fit, growing, 0, CONSTANT)
        if (why_not := _why_none_held_out(self.data)) is not None:
            return self._cut_in_sample(growing, why_not)
        return self._cut_by_held_out(growing)

    def _cut_in_sample(self, growing: Adaptive, why_not: str) -> Decomposition:
        fit, n = self.fit, flat_size(self.fit.path)
        if n == fit.n_params:
            return replace(fit, reason=f"{_why_all(fit, growing)} {why_not}")
        reason = (
            f"grown to {_parameters(fit.n_params)}, then halved while that raised KL by less than {100 * LITTLE:g} % "
            f"of {fit.path[0].kl:.4g}, its value without parameters: {n} {_are(n)} left. {why_not}"
        )
        return self._part(fit, growing, n, reason)

    def _cut_by_held_out(self, growing: Adaptive) -> Decomposition:
        seen = in_memory(self.data, "adaptive")
        if growing.size == "cv":
            fit, reason, most = self.fit, "", growing.most or 0
        else:
            fit, most = self._scored(seen), self.fit.n_params
            reason = f"the extended BIC led to {_parameters(most)}, {_close(fit, growing)} for a first look, so "
        n = fewest(fit.path)
        reason += _why_held_out(fit.path, n, "I-divergence" if seen.positive else "squared error")  # see `heldout`
        if (best := _best(fit.path).n_params) >= most:
            reason += (
                f" The loss was still falling at {best}, {_close(fit, growing)} for a first look; for more: "
                f"adaptive({growing.size!r}, most={2 * (growing.most or 1)})."
            )
        return self._part(fit, growing, n, reason)

    def _scored(self, seen: Dense) -> Decomposition:
        """Write the losses of held-out cells into the path of a basis that a criterion did not end."""
        curve = curve_of_cells(seen, [step.n_params for step in self.fit.path], FOLDS, self.say)
        return replace(self.fit, path=curve.noted(self.fit.path, seen.total))

    def _part(self, fit: Decomposition, growing: Adaptive, n: int, reason: str) -> Decomposition:
        """Fit n cells, with the rounds that led to as many: those that matter most in the larger basis.

        Where the round of n fitted closer than these do, leaving cells out one by one has led astray, and a basis is
        grown to n.
        """
        if n == fit.n_params:
            return replace(fit, reason=reason)
        then = next(step for step in fit.path if step.n_params == n)
        part, recipe = fit.at(n), f"{growing!r}.at({n})"
        if n and part.kl > then.kl:
            grown = fit_recipe(self.data, replace(growing, size=n, most=None), self.settings, self.say)
            if grown.n_params == n and grown.kl < part.kl:
                part, recipe = grown, grown.recipe
        end = Round.measured(n, part.kl, part.rmse, part.total)
        path = with_round(tuple(fit.path), replace(end, held_out=then.held_out, spread=then.spread))
        return replace(part, recipe=recipe, path=rounds_judged(path, part), reason=reason)


def fewest(path: Sequence[Round]) -> int:
    """Return the fewest parameters whose loss on held-out cells is within one standard error of the least.

    >>> path = [Round(n, 1.0, 0.0, 0.0, 0.0, loss, 0.1) for n, loss in [(0, 2.0), (5, 1.05), (8, 1.0), (9, math.nan)]]
    >>> fewest(path)
    5
    """
    best = _best(path)
    most = best.held_out + (best.spread if math.isfinite(best.spread) else 0.0)
    return next(step.n_params for step in path if step.held_out <= most)


def _best(path: Sequence[Round]) -> Round:
    return min((step for step in path if not math.isnan(step.held_out)), key=lambda step: step.held_out)


def flat_size(path: Sequence[Round]) -> int:
    """Halve the number of parameters, along the rounds of a path, while that raises KL by less than `LITTLE`.

    >>> path = [Round(n, kl, 0.0, 0.0, 0.0) for n, kl in [(0, 1.0), (6, 0.5), (12, 0.2), (24, 0.18), (48, 0.16)]]
    >>> flat_size(path), flat_size(path[:2]), flat_size(path[1:2])
    (12, 6, 6)
    """
    kept = path[-1]
    while kept.n_params and (smaller := [step for step in path if 2 * step.n_params <= kept.n_params]):
        half = smaller[-1]
        if half.kl - kept.kl >= LITTLE * path[0].kl:
            break
        kept = half
    return kept.n_params


def _why_held_out(path: Sequence[Round], n: int, loss: str) -> str:
    """Say in numbers what held-out cells say."""
    losses, best = {step.n_params: step.held_out for step in path}, _best(path)
    uniform = f"; {losses[0]:.4g} without parameters" if 0 in losses else ""  # not on a path that began with a rise
    said = (
        f"cells were held out, in {FOLDS} parts, and predicted by fits to the others: best with "
        f"{_parameters(best.n_params)} ({loss} {best.held_out:.4g}, standard error {best.spread:.2g}{uniform})"
    )
    if n == best.n_params:
        return f"{said}."
    if not n:
        return f"{said}; without parameters the loss is within one standard error of that."
    return f"{said}; {n} {_are(n)} the fewest within one standard error of that ({losses[n]:.4g})."


def _why_none_held_out(data: Observation) -> str | None:
    """Say why no cells of X are held out; ``None`` where they can be."""
    if data.support.n_cells < LEAST_EVENTS * FOLDS:
        return "X has too few cells to hold some out."
    if too_large(data):
        why = f"has more than {limits.COARSE_BOXES:,} cells" if data.whole else f"is {data.kind}"
        return f"No cells were held out, for the basis grew on boxes of cells: X {why}."
    if math.prod(data.shape) * len(data.shape) > limits.FIRST_HELD_OUT:
        return "No cells were held out, which would take more than some seconds for an X of this size."
    if not_zero(in_memory(data, "adaptive")) < LEAST_EVENTS * FOLDS:
        return "X has too few cells that are not 0 to hold some out."
    return None


def _why_criterion(fit: Decomposition) -> str:
    if not fit.n_params:
        return "X holds counts: no parameter lowers the extended BIC, for cells differ by no more than chance may do."
    return f"X holds counts: grown while each parameter lowered the extended BIC, which ended at {fit.n_params}."


def _why_criterion_and_more(fit: Decomposition, growing: Adaptive) -> str:
    return (
        f"X holds counts: grown while each parameter lowered the extended BIC, up to {_parameters(fit.n_params)}, "
        f"{_close(fit, growing)} for a first look. For more: adaptive('bic', most={2 * (growing.most or 1)})."
    )


def _why_all(fit: Decomposition, growing: Adaptive) -> str:
    if isinstance(growing.size, int) and fit.n_params < growing.size:
        return f"grown until no cell was left that lowers KL, at {_parameters(fit.n_params)}."
    more = f"'bic', most={2 * fit.n_params}" if isinstance(growing.size, str) else str(2 * growing.size)
    return (
        f"grown to {_parameters(fit.n_params)}, {_close(fit, growing)} for a first look at an X of this size; KL was "
        "still falling. "
        f"For more: adaptive({more})."
    )


def _why_interactions(fit: Decomposition) -> str:
    what = "each pair of levels" if fit.recipe == repr(interactions(2)) else "each level"
    size = f"{size_name(math.prod(fit.shape))} cells, {len(fit.shape)} modes"
    return f"X is too large to grow a basis on within a minute ({size}): this one keeps the sum over {what} as it is."


def _close(fit: Decomposition, growing: Adaptive) -> str:
    return "close to the most" if growing.most is not None and fit.n_params < growing.most else "the most"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


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
