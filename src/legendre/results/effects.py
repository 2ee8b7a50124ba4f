"""Effects: log Q as a sum of what single modes do, pairs of modes, and so on (a functional analysis of variance).

``log(Q / base)`` is a sum of steps: each cell u of the basis adds theta_u to all cells at or above u. A step is a
product over the modes k with u_k > 0 of the indicator "level >= u_k", and each indicator is its mean plus a centred
function of the level. Multiplying out gives a term for each subset of these modes. The effect of a set of modes is the
sum of its terms over all steps. This takes time proportional to the basis, and no tensor of X's shape is formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from legendre.basis.interactions import list_subsets
from legendre.core import limits
from legendre.core.arguments import check_choice, check_flag, check_int
from legendre.core.cells import freeze
from legendre.core.errors import InvalidQuery, TooLarge
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room, rows_of, size_name
from legendre.core.origin import Origin
from legendre.core.sums.quotient import Quotient, sum_others
from legendre.core.sums.zeta import zeta
from legendre.core.text import Printed, Table, list_words, shape_name, shorten
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, Shape, frozen
from legendre.results.base import cells_have, import_pandas
from legendre.results.views import margin_of, measure_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Measure = Literal["fitted", "uniform"]
FEW_COUNTS = 5  # fitted counts: where cells vanish, a level with fewer is not drawn with its factor


@frozen
class Effect:
    """What a set of modes contributes to log Q beyond its subsets; its mean over each of its modes is 0.

    Attributes
    ----------
    modes
        The modes, in rising order.
    merged
        The effect on the merged levels: along each mode one entry for each interval on which Q is constant.
    variance, share
        The variance of the effect under the measure, and its share of the variance of log Q.
    """

    modes: Modes
    merged: FloatArray
    variance: float
    share: float
    lengths: tuple[IntArray, ...]  # for each of the modes, the number of levels in each interval
    origin: Origin

    @property
    def shape(self) -> Modes:
        """How many levels each of the modes has."""
        return tuple(int(n.sum()) for n in self.lengths)

    @property
    def labels(self) -> Labels:
        """What the modes and their levels are called; levels are in the order of `arranged`."""
        return self.origin.of(self.shape)

    def tensor(self) -> Any:
        """Return `values` in the type of X: an xarray DataArray, a pandas Series or table, an array of its library."""
        return self.origin.give(self.arranged, what="effect")

    @property
    def name(self) -> str:
        """The modes by their names: "hour", "carrier and dest"; without names "mode 0", "modes 0 and 1"."""
        names = self.labels.names
        if names is None:
            return f"mode{'s' if len(self.modes) > 1 else ''} {list_words(list(map(str, self.modes)))}"
        return list_words(list(names))

    @property
    def values(self) -> FloatArray:
        """The effect at every level of its modes, in the order of X; ``exp(values)`` is a factor on the probability."""
        return self.labels.straighten(self.arranged)

    @property
    def arranged(self) -> FloatArray:
        """`values` with levels in the order of `labels`, which differs from X's for modes that were arranged."""
        check_room(math.prod(self.shape), 8, "an effect", "Use `merged` instead.")
        values = self.merged
        for axis, lengths in enumerate(self.lengths):
            values = np.repeat(values, lengths, axis=axis)
        return values


@frozen(repr=False)
class Effects(Printed):
    """log Q as a sum of effects of sets of modes: ``log(Q / base) = constant + sum of effects``.

    Indexed by a mode or by modes, ``effects[0]``, ``effects["carrier", "dest"]``; iterated over from single modes to
    larger sets.

    Attributes
    ----------
    constant
        The mean of ``log(Q / base)`` under the measure.
    variance
        The variance of ``log(Q / base)``, the sum of the variances of all effects.
    measure
        "fitted": levels are weighted by the margins of Q, so nearly empty cells do not dominate. "uniform": all levels
        of a mode have the same weight.

    See Also
    --------
    Decomposition : The result of `decompose`.
    legendre.results.Parameters : The table of all parameters.

    Notes
    -----
    Means are taken over the full grid, cells outside the support included, under a measure that is a product over
    modes: effects are then uncorrelated, and their variances add up. If cells vanish in the limit, log Q is -inf there.
    The fitted measure is then Q itself on the other cells, and effects are fitted by least squares: first those of
    single modes, then those of pairs to what is left, and so on; their shares need not add up to 100 %.

    Examples
    --------
    >>> import legendre as ld
    >>> effects = ld.decompose([[1, 2], [3, 12]], ld.full()).effects()
    >>> effects[0].values.round(4).tolist()
    [-1.3648, 0.273]
    >>> effects.observed(0).round(4).tolist()
    [0.2615, 1.3077]
    >>> print(effects)
    Effects on log Q of 2x2, fitted measure
    modes  levels  share of variance
    0           2             56.2 %
    1           2             42.1 %
    0, 1      2x2              1.7 %
    The model explains 100.0 % of KL from uniform and 100.0 % of KL from independence
    """

    fit: Decomposition
    measure: Measure
    constant: float
    variance: float
    by_modes: dict[Modes, Effect]  # single modes first

    def __getitem__(self, modes: Mode | Sequence[Mode]) -> Effect:
        """Return the effect of a mode or of a set of modes; an error lists those that have one."""
        labels = self.fit.labels
        wanted = tuple(sorted(labels.find_modes(modes, "effects")))
        if wanted not in self.by_modes:
            known = shorten(", ".join(f"({_set_name(modes, labels)})" for modes in self.by_modes))
            raise InvalidQuery(
                f"effects: the modes ({_set_name(wanted, labels)}) have no effect of their own in this model; "
                f"those that have: {known or 'none'}."
            )
        return self.by_modes[wanted]

    def __iter__(self) -> Iterator[Effect]:
        """Iterate over the effects, those of single modes first."""
        return iter(self.by_modes.values())

    def __len__(self) -> int:
        """Return the number of effects."""
        return len(self.by_modes)

    def observed(self, mode: Mode) -> FloatArray:
        """Return the observed mean at each level of a mode, as a factor, to compare with ``exp(effects[mode].values)``.

        The mean at a level is the sum of X there, divided by the base measure of its cells in the sample space. Factors
        are relative to the geometric mean over levels, weighted by the measure, which is 1.
        """
        k = self.fit.labels.find_mode(mode, "effects")
        logs = center_log_means(self.fit, k, self.measure)
        if logs is None:
            raise InvalidQuery("effects: X is not available, so there are no observed means.")
        return self.fit.labels.part([k]).straighten(np.exp(logs))

    def to_frame(self) -> Any:
        """Return all effects as a pandas data frame, a row for each combination of levels, with its factor.

        Its columns are `effect`, `share`, one for each mode (NaN where the effect does not concern it), `value` and
        `factor`. A mode with one of these four names gets another: ``mode value``.

        Examples
        --------
        >>> import legendre as ld
        >>> frame = ld.decompose([[1, 2], [3, 12]], "B1", names=["a", "b"]).effects().to_frame()
        >>> frame.loc[frame["effect"] == "a", ["a", "factor"]].round(3).values.tolist()
        [[0.0, 0.262], [1.0, 1.308]]
        """
        pandas = import_pandas("effects().to_frame()")
        first, last = ["effect", "share"], ["value", "factor"]
        frames = [pandas.DataFrame(columns=[*first, *last])]
        for effect in self:
            labels, values = effect.labels.restore_order(), effect.values.ravel()
            names = [labels.mode(i) for i in range(len(effect.modes))]
            names = [f"mode {name}" if name in (*first, *last) else name for name in names]
            levels = [labels.levels_of(i) for i in range(len(names))]
            frame = pandas.MultiIndex.from_product(levels, names=names).to_frame(index=False)
            frame = frame.assign(effect=effect.name, share=effect.share, value=values, factor=np.exp(values))
            frames.append(frame[[*first, *names, *last]])
        return pandas.concat(frames[1:] or frames, ignore_index=True)

    def kl_lost(self, modes: Mode | Sequence[Mode]) -> float:
        """Return how much KL(P, Q) rises if these modes have no joint effect: the model is refitted without it.

        All parameters that involve these modes together are left out, also those of larger sets.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2], [3, 12]], ld.full())
        >>> round(fit.effects().kl_lost([0, 1]), 4) == round(ld.decompose([[1, 2], [3, 12]], "B1").kl, 4)
        True
        """
        wanted = self.fit.labels.find_modes(modes, "effects")
        left_out = np.asarray((self.fit.basis[:, wanted] > 0).all(axis=1))  # cells of B that involve all these modes
        if self.fit.ties is not None:  # of tied parameters those that act on one of these cells or more
            left_out = self.fit.ties.mark_touching(left_out)
        return max(self.fit._fit_part(np.flatnonzero(~left_out)).kl - self.fit.kl, 0.0)

    def tables(self, *, kl_lost: bool = False) -> list[Table]:
        """List the effects, with their shares of the variance; for `kl_lost` see `summary`."""
        head = f"Effects on log Q of {shape_name(self.fit.shape)}, {self.measure} measure"
        rows = [["modes", "levels", "share of variance", *(["KL lost"] if check_flag(kl_lost, "kl_lost") else [])]]
        for effect in self:
            name, share = _set_name(effect.modes, self.fit.labels), f"{100 * effect.share:.1f} %"
            lost = [f"{self.kl_lost(effect.modes):.4g}"] if kl_lost else []
            rows.append([name, shape_name(effect.shape), share, *lost])
        return [Table(head, rows, "<>>", notes=notes_of(self.fit, self.measure, self))]

    def summary(self, *, kl_lost: bool = False) -> str:
        """Return a table of the effects, with their shares of the variance.

        Parameters
        ----------
        kl_lost
            Also list how much KL(P, Q) rises without each effect, which takes one more fit for each.
        """
        return self.tables(kl_lost=kl_lost)[0].text()


def effects_of(fit: Decomposition, measure: Measure, max_order: int | None, *, quick: bool = False) -> Effects:
    """Compute the effects of all sets of at most `max_order` modes, and their shares of the variance of log Q.

    `fit` is a decomposition, or a balanced tensor. Effects follow from theta in closed form (`tables_of`). If cells
    vanish, log Q is -inf there, and fitted effects come from least squares on the other cells (`_fit_on_alive`). With
    `quick`, raise `TooLarge` where the variance of log Q would take many seconds.
    """
    check_choice(measure, "effects: measure", get_args(Measure))
    quotient, n_modes = fit.model.quotient, len(fit.shape)
    most = n_modes if max_order is None else min(check_int(max_order, "effects: max_order", 1), n_modes)
    weights = [mode_weights(fit, measure, k) for k in range(n_modes)]
    theta = fit.model.on_cells(fit.theta)
    if measure == "fitted" and _can_fit_on_alive(fit):
        tables, variances, mean, total = _fit_on_alive(fit, most)
    else:
        positions, n_cells = fit.model.positions, math.prod(quotient.merged_shape)
        # The variance of log Q is the sum of those of all effects. If larger sets of modes have effects too, which are
        # not asked for, it is computed from pairs of parameters: a product for each pair and mode, of which 1e9 take
        # seconds. For more, all effects are computed, if the grid is small; `tables_of` refuses them on a large one.
        sum_pairs = any(len(modes) > most for modes in fit.model.patterns)
        if len(theta) ** 2 * n_modes > 1e9 and (quick or n_cells <= limits.LARGEST_EFFECTS):
            sum_pairs = False
        tables, mean = tables_of(quotient, positions, theta, weights, most if sum_pairs else n_modes)
        variances = {modes: variance_of(table, [weights[k] for k in modes]) for modes, table in tables.items()}
        total = total_variance(positions, theta, weights) if sum_pairs else math.fsum(variances.values())
    by_modes = {
        modes: Effect(
            modes,
            freeze(tables[modes]),
            variances[modes],
            variances[modes] / total if total else 0.0,
            tuple(quotient.lengths[k].astype(np.int64) for k in modes),
            fit.origin.part(modes),
        )
        for modes in sorted(tables, key=lambda modes: (len(modes), modes))
        if len(modes) <= most
    }
    return Effects(fit, measure, mean - fit.psi, total, by_modes)  # log(Q / base) is the sum of steps minus psi


def _can_fit_on_alive(fit: Any) -> bool:
    """Decide whether effects are fitted on the cells that do not vanish: some vanish, and the merged grid is small.

    Otherwise effects come from the finite theta: for a sample space that is a list of cells (`support.points`), which
    has no grid, and for a balanced tensor, which has no attribute `_alive`.
    """
    space = fit.model
    return (
        getattr(fit, "_alive", None) is not None
        and space.support.points is None
        and space.n_cells <= limits.LARGEST_EFFECTS
    )


def _fit_on_alive(
    fit: Any, max_order: int, most: int = 200, tol: float = 1e-9
) -> tuple[dict[Modes, FloatArray], dict[Modes, float], float, float]:
    """Compute effects if some cells vanish: a least squares fit to log Q, weighted by Q, on all other cells.

    Functions of single modes are fitted first, then functions of pairs to the residuals, and so on. Each fit is by
    backfitting (Breiman and Friedman 1985): to the function of each set of modes in turn it adds the mean of the
    residuals at each of its levels, for at most `most` rounds, until no entry changes by more than `tol`.

    Return the table of each set of modes (on merged levels; NaN where all cells vanish), its variance, and the mean and
    the variance of ``log(Q / base) + psi``, the sum of steps, as `tables_of` does.
    """
    space = fit.model
    alive = space.on_grid(fit._alive)
    # all arrays are over the merged cells that do not vanish: their coordinates, log(q / base) and probabilities
    cells, log_q = np.nonzero(alive), (space.below(fit.theta) - fit.psi)[alive]
    mass = np.exp(log_q) * space.weights[alive]
    mean = float(mass @ log_q)
    residuals = log_q - mean
    total = float(mass @ residuals**2)
    groups, shape = _group_by_modes(space.positions), space.quotient.merged_shape
    _check_sizes(groups, shape, max_order)
    sets = list_subsets(groups, shape, max_order)
    sizes = {modes: tuple(shape[k] for k in modes) for modes in sets}
    # for each set of modes: the entry of its table to which each cell belongs, and the probability of each entry
    entries = {modes: np.ravel_multi_index([cells[k] for k in modes], sizes[modes]) for modes in sets}
    margins = {modes: np.bincount(entries[modes], mass, math.prod(sizes[modes])) for modes in sets}
    tables = {modes: np.zeros(len(margins[modes])) for modes in sets}
    for order in range(1, 1 + max(map(len, sets), default=0)):
        for _ in range(most):
            change = 0.0
            for modes in (modes for modes in sets if len(modes) == order):
                with np.errstate(invalid="ignore"):  # 0 / 0 = NaN at an entry whose cells all vanish
                    means = np.bincount(entries[modes], mass * residuals, len(margins[modes])) / margins[modes]
                tables[modes] += means
                residuals -= means[entries[modes]]
                change = max(change, float(np.nanmax(np.abs(means))))
            if change <= tol:
                break
    variances = {modes: float(np.nansum(margins[modes] * table**2)) for modes, table in tables.items()}
    return {modes: table.reshape(sizes[modes]) for modes, table in tables.items()}, variances, mean + fit.psi, total


def center_log_means(fit: Decomposition, k: int, measure: Measure) -> FloatArray | None:
    """Compute the log of the mean of X at each level of mode k, minus its average under `measure`.

    Pictures show it beside the effect of mode k, which is centred in the same manner. Levels are in the order of
    `labels`. It is -inf at a level without data, and NaN at a level without a cell in the sample space. Return ``None``
    if the fit does not hold X (it was loaded from a file), or if X has another shape than the fit.
    """
    if fit.data is None or fit.data.shape != fit.shape:
        return None
    sums, sizes = margin_of(fit.data, (k,)), measure_of(fit.model, (k,))
    # `measure` has weights for merged levels, so the average is over the means at these, where there are data
    merged_sums, merged_sizes = (np.add.reduceat(margin, fit.model.quotient.cuts[k]) for margin in (sums, sizes))
    with_data = merged_sums > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.average(
            np.log(merged_sums[with_data] / merged_sizes[with_data]), weights=mode_weights(fit, measure, k)[with_data]
        )
        return np.asarray(np.log(sums / sizes) - centre)


def values_shown(
    fit: Decomposition | None, effect: Effect, most: int
) -> tuple[FloatArray, list[IntArray], FloatArray | None]:
    """Return what pictures and the report page show of an effect: its values at some levels, and observed means.

    A picture has no more than about `most` pixels along an axis, so of more levels of a mode, that many evenly spaced
    ones are shown. Values are logarithms of factors, NaN where `_mark_scarce` finds that a factor means nothing. The
    second value lists the levels of each mode; the third has `center_log_means` at these levels, for a single mode if
    the fit holds X. Without a fit, as for a balanced tensor, nothing is left out, and no means are known.
    """
    merged, observed, merged_levels, levels = effect.merged, None, [], []
    for n, lengths in zip(effect.shape, effect.lengths, strict=True):
        kept = min(n, most)
        levels.append(np.arange(kept) * n // kept)
        merged_levels.append(np.searchsorted(np.cumsum(lengths), levels[-1], side="right"))
    if fit is not None:
        merged = np.where(_mark_scarce(fit, effect), np.nan, merged)
        observed = center_log_means(fit, effect.modes[0], "fitted") if len(effect.modes) == 1 else None
    values = merged[np.ix_(*merged_levels)]
    return values, levels, None if observed is None else np.where(np.isnan(values), np.nan, observed[levels[0]])


def _mark_scarce(fit: Decomposition, effect: Effect, max_cells: int = 1 << 22) -> BoolArray:
    """Mark the entries of an effect (on merged levels) whose factor means nothing, so that pictures leave it out.

    They are the entries where Q is 0. If cells vanish and X holds counts, they are also those where Q has fewer than
    FEW_COUNTS counts. Their factor is a mean over cells where log Q is -inf, or where no data determine it: it is as
    large as the finite theta happens to be. Nothing is marked if the margin of Q, with an entry for each combination of
    levels, would have more than `max_cells` cells: a picture does not show that many.
    """
    if len(effect.modes) > 1 and math.prod(effect.shape) > max_cells:
        return np.zeros(effect.merged.shape, dtype=np.bool_)
    margin = fit._distribution.marginal(list(effect.modes), {})
    for axis, k in enumerate(effect.modes):
        margin = np.add.reduceat(margin, fit.model.quotient.cuts[k], axis=axis)
    if fit.n_vanishing and fit.data is not None and fit.data.counts:
        few = margin * fit.total < FEW_COUNTS - 0.5  # Q need not be an integer: 4.5 rounds to 5
        if not few.all():  # of a table with few counts in all, everything would be left out
            return few
    return np.asarray(margin == 0)


def notes_of(fit: Decomposition, measure: Measure, effects: Iterable[Effect], max_levels: int = 1_000) -> list[str]:
    """List the sentences below a table of effects: how good the model is, and how effects may mislead.

    An effect of one mode is an average over the others. A reader is warned if averages under the other measure, or the
    observed means, put two levels in the opposite order (`_reverses`). All pairs of levels are compared, so modes with
    more than `max_levels` levels are skipped.
    """
    model = fit.model
    other: Measure = "uniform" if measure == "fitted" else "fitted"
    weights = [mode_weights(fit, other, k) for k in range(len(fit.shape))]
    under_other, _ = tables_of(model.quotient, model.positions, model.on_cells(fit.theta), weights, 1)
    alone = [e for e in effects if len(e.modes) == 1 and e.shape[0] <= max_levels]
    notes = [f"The model explains {fit.explained}"]
    if turned := [e.name for e in alone if _reverses(e.merged, under_other[e.modes])]:
        notes.append(f"Levels of {list_words(turned)} are in another order under the {other} measure")
    pairs = [(e, center_log_means(fit, e.modes[0], measure)) for e in alone]
    if turned := [e.name for e, means in pairs if means is not None and _reverses(e.arranged, means)]:
        order = f"The fitted order of the levels of {list_words(turned)} differs from that of their observed means"
        causes = "joint effects" if fit.missing is None else "joint effects or missing cells"
        notes.append(f"{order}: {causes} reverse it, or there are too few parameters")
    if fit.missing is not None:
        notes.append(f"{int(fit.missing.sum()):,} cells are missing: effects describe the others")
    if gone := fit.n_vanishing:
        meaning = "averages are over the others, weighted by Q" if _can_fit_on_alive(fit) else "factors mean little"
        notes.append(f"{cells_have(gone)} fitted value 0: {meaning}")
    return notes


def _reverses(one: FloatArray, other: FloatArray, least: float = 0.05) -> bool:
    """Decide whether some two levels are in opposite order in two vectors of log factors, one entry for each level.

    Their difference must be visible in both vectors: more than `least`, a factor of 1.05, or where all factors are
    close to 1, more than this share of the range of the vector. A factor of 1.001 does not count: it may be rounding.
    """
    with np.errstate(invalid="ignore"):  # -inf minus -inf, at levels without data
        in_one, in_other = (np.subtract.outer(logs, logs) for logs in (one, other))  # for each pair of levels
        least_one, least_other = (
            min(least, max(1e-3, least * float(np.nanmax(d, initial=0.0)))) for d in (in_one, in_other)
        )
        return bool(((in_one > least_one) & (in_other < -least_other)).any())


def _set_name(modes: Modes, labels: Labels) -> str:
    """Write a set of modes by their names, or by their numbers if they have none, for tables and errors."""
    return ", ".join(str(labels.key(k)) for k in modes)


def mode_weights(fit: Any, measure: Measure, k: int) -> FloatArray:
    """Return the weight of each merged level of mode k under the measure; the weights add up to 1.

    "fitted" is the margin of Q, "uniform" the number of levels that are merged.
    """
    lengths, cuts = fit.model.quotient.lengths[k], fit.model.quotient.cuts[k]
    if measure == "uniform":
        return np.asarray(lengths / lengths.sum())
    if hasattr(fit, "_distribution"):  # a decomposition; a balanced tensor holds its entries, `values`
        return np.add.reduceat(fit._distribution.marginal([k], {}), cuts)
    return np.add.reduceat(sum_others(fit.values, (k,)) / fit.values.sum(), cuts)


def tables_of(
    quotient: Quotient, positions: IntArray, theta: FloatArray, weights: list[FloatArray], max_order: int
) -> tuple[dict[Modes, FloatArray], float]:
    """Compute the effects of all sets of at most `max_order` modes from theta, and the mean of the sum of steps.

    The step of a cell u is theta_u times the product over its modes k (those with u_k > 0) of the indicator
    "level >= u_k", which is its mean plus a centred function. Multiplied out, the term of a subset `kept` has the
    centred functions of the modes in it, and the means of the others.

    Parameters
    ----------
    quotient, positions, theta
        The merged grid; the cells of the basis on it, n x N; the theta of each.
    weights
        For each mode the measure of each merged level, with a sum of 1.
    max_order
        The size of the largest sets.

    Returns
    -------
    tuple
        For each set of modes the table of its effect on merged levels; and the mean.
    """
    beyond = [np.cumsum(w[::-1])[::-1] for w in weights]  # the mean of "level >= i" for each merged level i
    steps: dict[Modes, FloatArray] = {}
    means = [0.0]
    groups = _group_by_modes(positions)
    _check_sizes(groups, quotient.merged_shape, max_order)
    for modes, rows in groups.items():
        for kept in chain.from_iterable(combinations(modes, n) for n in range(max_order + 1)):
            heights = theta[rows].copy()  # of the steps, averaged over the modes that are not kept
            for k in modes:
                if k not in kept:
                    heights *= beyond[k][positions[rows, k]]
            if kept:
                table = steps.setdefault(kept, np.zeros(tuple(quotient.merged_shape[k] for k in kept)))
                np.add.at(table, tuple(positions[rows, k] for k in kept), heights)
            else:
                means.append(float(heights.sum()))
    # zeta turns heights at the cells where steps begin into sums of steps; centring is linear, so it can come last
    centred = {modes: _subtract_means(zeta(table), [weights[k] for k in modes]) for modes, table in steps.items()}
    return centred, math.fsum(means)


def _group_by_modes(positions: IntArray) -> dict[Modes, list[int]]:
    """Group the cells of the basis (rows of `positions`, n x N) by the modes in which their coordinates are not 0.

    All cells of a group contribute to the same effects: those of all subsets of these modes.
    """
    groups: dict[Modes, list[int]] = {}
    for row, used in enumerate(positions > 0):
        groups.setdefault(tuple(np.flatnonzero(used).tolist()), []).append(row)
    return groups


def _check_sizes(groups: Iterable[Modes], merged_shape: Shape, max_order: int) -> None:
    """Refuse to form more tables, or larger ones, than there is time and memory for, and advise a smaller `max_order`.

    `groups` are the sets of modes that parameters act on. Each adds to the tables of all of its subsets; a subset of
    several groups is counted for each of them, as that is the work. Cells are bounded from below, by the largest
    subset of each group.
    """
    n_tables, largest = 0, set[Modes]()
    for modes in groups:
        n_tables += sum(math.comb(len(modes), n) for n in range(max_order + 1))
        largest.add(tuple(sorted(modes, key=lambda k: -merged_shape[k])[:max_order]))
    n_cells = sum(math.prod(merged_shape[k] for k in modes) for modes in largest)
    if max(n_tables, n_cells) > limits.LARGEST_EFFECTS:
        raise TooLarge(
            f"effects: {size_name(n_tables)} sets of modes with {size_name(n_cells)} cells or more; at most "
            f"{size_name(limits.LARGEST_EFFECTS)} are formed. Ask for effects(max_order=2), or 1."
        )


def _subtract_means(table: FloatArray, weights: list[FloatArray]) -> FloatArray:
    """Subtract the weighted mean along each axis in turn, so that no effect of fewer modes is left in the table."""
    for axis, w in enumerate(weights):
        table = table - np.average(table, axis, w, keepdims=True)
    return table


def variance_of(table: FloatArray, weights: list[FloatArray]) -> float:
    """Return the weighted mean square of a table, its variance, because the mean of an effect is 0.

    `weights` has a vector for each axis, with a sum of 1.
    """
    squares = table * table
    for w in reversed(weights):
        squares = squares @ w
    return float(squares)


def total_variance(positions: IntArray, theta: FloatArray, weights: list[FloatArray]) -> float:
    """Compute the variance of log Q: the sum of theta_u theta_v cov(f_u, f_v) over pairs of cells of the basis.

    f_u is the feature of u, 1 at or above u. The share of an effect is its part of this variance. The sum is needed if
    sets of more than `max_order` modes have effects, because their variances are not computed. The product of two
    features is the feature of the join, so its mean is the measure at or above the join. Arguments as in `tables_of`.
    """
    beyond = [np.cumsum(w[::-1])[::-1] for w in weights]  # the measure at or above each merged level
    means = np.prod([b[positions[:, k]] for k, b in enumerate(beyond)], axis=0)  # of the features
    total = 0.0
    # a block of rows at a time, so that the matrix of all pairs is never held
    for rows in rows_of((len(theta), len(theta))):
        joint = np.ones((len(theta[rows]), len(theta)))
        for k, b in enumerate(beyond):
            joint *= b[np.maximum.outer(positions[rows, k], positions[:, k])]
        total += float(theta[rows] @ (joint - np.outer(means[rows], means)) @ theta)
    return max(total, 0.0)  # rounding may make it negative
