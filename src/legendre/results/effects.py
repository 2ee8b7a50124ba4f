"""Effects: log Q as a sum of what single modes do, pairs of modes, and so on (a functional analysis of variance)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.arguments import entries, is_whole
from legendre.core.cells import frozen
from legendre.core.errors import InvalidQuery
from legendre.core.html import fragment, sparklines
from legendre.core.labels import Labels
from legendre.core.memory import check_room
from legendre.core.origin import Origin
from legendre.core.text_table import Columns, Table, listed_words, shape_name
from legendre.core.types import FloatArray, IntArray
from legendre.results.effect_tables import Measure, Modes, tables_of, total_variance, variance_of, weights_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True, eq=False)
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
    lengths: tuple[IntArray, ...]  # how many levels each interval has, for each of the modes
    origin: Origin

    @property
    def labels(self) -> Labels:
        """What the modes and their levels are called."""
        return self.origin.of(tuple(int(n.sum()) for n in self.lengths))

    def tensor(self) -> Any:
        """Return `values` in the form of X: a DataArray, a Series or table of pandas, an array of its library."""
        return self.origin.give(self.arranged, what="effect")

    @property
    def name(self) -> str:
        """The modes by their names: "hour", "carrier and dest"; without names "mode 0", "modes 0 and 1"."""
        names = self.labels.names
        if names is None:
            return f"mode{'s' if len(self.modes) > 1 else ''} {listed_words(list(map(str, self.modes)))}"
        return listed_words(list(names))

    @property
    def values(self) -> FloatArray:
        """The effect at every level of its modes; ``exp(values)`` is a factor on the probability."""
        return self.labels.straighten(self.arranged)

    @property
    def arranged(self) -> FloatArray:
        """The same with levels in the order of `labels`, which is not that of X where levels were arranged."""
        check_room(math.prod(int(n.sum()) for n in self.lengths), 8, "an effect", "Use `merged` instead.")
        values = self.merged
        for axis, lengths in enumerate(self.lengths):
            values = np.repeat(values, lengths, axis=axis)
        return values


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
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
        "uniform": every level of a mode counts the same. "fitted": levels count as in the margins of Q.

    See Also
    --------
    Decomposition : The result of `decompose`.
    Parameters : The table of all parameters.

    Notes
    -----
    Means are taken over the whole grid, cells outside the support included, under a measure that is a product over
    modes: effects are then uncorrelated, and their variances add up. Where cells vanish in the limit log Q is not
    finite in them; effects are those of a finite theta that has the same Q on all other cells.

    Examples
    --------
    >>> import legendre as ld
    >>> effects = ld.decompose([[1, 2], [3, 12]], ld.full()).effects()
    >>> effects[0].values.round(4).tolist()
    [-0.7226, 0.7226]
    >>> effects[0, 1].values.round(4).tolist()
    [[0.1733, -0.1733], [-0.1733, 0.1733]]
    >>> print(effects)
    Effects on log Q of 2x2, uniform measure
    modes  levels  share of variance
    0           2            63.5 %
    1           2            32.9 %
    0, 1      2x2             3.7 %
    """

    fit: Decomposition
    measure: Measure
    constant: float
    variance: float
    parts: dict[Modes, Effect]

    def __getitem__(self, modes: int | str | Sequence[int | str]) -> Effect:
        labels = self.fit.labels
        wanted = _checked_modes(modes, labels)
        if wanted not in self.parts:
            raise InvalidQuery(
                f"effects: the modes {_set_name(wanted, labels)} have no effect of their own in this model; "
                f"those that have: {_listed(list(self.parts), labels)}."
            )
        return self.parts[wanted]

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.parts.values())

    def __len__(self) -> int:
        return len(self.parts)

    def kl_lost(self, modes: int | str | Sequence[int | str]) -> float:
        """Return by how much KL(P, Q) rises if these modes may have no joint effect: the model is fitted without it.

        All parameters in which these modes take part together are left out, those of larger sets included.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2], [3, 12]], ld.full())
        >>> round(fit.effects().kl_lost([0, 1]), 4) == round(ld.decompose([[1, 2], [3, 12]], "B1").kl, 4)
        True
        """
        wanted = list(_checked_modes(modes, self.fit.labels))
        left_out = np.asarray((self.fit.basis[:, wanted] > 0).all(axis=1))
        if self.fit.ties is not None:
            left_out = self.fit.ties.touching(left_out)
        kept = np.flatnonzero(~left_out)
        return max(self.fit.refitted(kept).kl - self.fit.kl, 0.0)

    def tables(self, *, kl_lost: bool = False) -> list[Table]:
        """List the effects, with their shares of the variance; for `kl_lost` see `summary`."""
        names = self.fit.labels.names
        head = f"Effects on log Q of {shape_name(self.fit.shape)}, {self.measure} measure"
        rows = [["modes", "levels", "share of variance", *(["KL lost"] if kl_lost else [])]]
        for effect in self:
            levels = "x".join(str(int(n.sum())) for n in effect.lengths)
            modes = ", ".join(str(k) if names is None else names[k] for k in effect.modes)
            lost = [f"{self.kl_lost(effect.modes):.4g}"] if kl_lost else []
            rows.append([modes, levels, f"{100 * effect.share:.1f} %", *lost])
        notes = []
        if gone := self.fit.n_vanishing:
            subject = "1 cell vanishes" if gone == 1 else f"{gone:,} cells vanish"
            notes.append(f"{subject}: log Q is -inf there, whatever these effects say")
        return [Columns(head, rows, "<>>", notes=notes)]

    def summary(self, *, kl_lost: bool = False) -> str:
        """Return a table of the effects, with their shares of the variance.

        Parameters
        ----------
        kl_lost
            Also list by how much KL(P, Q) rises without each effect: one fit more for each of them.
        """
        return "\n\n".join(table.text() for table in self.tables(kl_lost=kl_lost))

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with a line for each mode's effect."""
        return fragment(self.tables(), (), sparklines(list(self), self.fit.labels))


def effects_of(fit: Decomposition, measure: Measure, max_order: int | None) -> Effects:
    """Compute the effects of all sets of at most `max_order` modes."""
    if measure not in ("uniform", "fitted"):
        raise InvalidQuery(f'effects: measure={measure!r}; it is "uniform" or "fitted".')
    if max_order is not None and not is_whole(max_order, 1):
        raise InvalidQuery(f"effects: max_order={max_order!r}; it must be an integer >= 1.")
    quotient = fit.model.quotient
    weights, theta = weights_of(fit, measure), fit.model.space.on_cells(fit.theta)
    tables, mean = tables_of(quotient, fit.model.positions, theta, weights, max_order)
    variances = {modes: variance_of(table, [weights[k] for k in modes]) for modes, table in tables.items()}
    cut = max_order is not None and any(len(modes) > max_order for modes in fit.model.patterns)
    total = total_variance(fit.model.positions, theta, weights) if cut else math.fsum(variances.values())
    parts = {
        modes: Effect(
            modes,
            frozen(tables[modes]),
            variances[modes],
            variances[modes] / total if total else 0.0,
            tuple(quotient.lengths[k].astype(np.int64) for k in modes),
            fit.origin.part(modes),
        )
        for modes in sorted(tables, key=lambda modes: (len(modes), modes))
    }
    return Effects(fit, measure, mean - fit.psi, total, parts)


def _checked_modes(modes: int | str | Sequence[int | str], labels: Labels) -> Modes:
    single = is_whole(modes) or isinstance(modes, str)
    listed = [modes] if single else entries(modes)
    if not listed:
        raise InvalidQuery(f"effects: {modes!r} is no set of modes; pass a mode such as 0, or modes such as [0, 2].")
    wanted = tuple(sorted(labels.find_mode(key, "effects") for key in listed))
    if len(set(wanted)) < len(wanted):
        raise InvalidQuery(f"effects: {modes!r} names a mode twice.")
    return wanted


def _set_name(modes: Modes, labels: Labels) -> str:
    return "(" + ", ".join(str(k) if labels.names is None else labels.names[k] for k in modes) + ")"


def _listed(sets: list[Modes], labels: Labels) -> str:
    """Write sets of modes; of many the first few."""
    shown = ", ".join(_set_name(modes, labels) for modes in sets[:8])
    return shown + (f" and {len(sets) - 8:,} more" if len(sets) > 8 else "") if sets else "none"
