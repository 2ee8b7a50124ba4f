"""The stages of a basis that grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import overload

import numpy as np

from legendre.data.observation import Observation


@dataclass(frozen=True)
class Round:
    """One stage of growing an adaptive basis.

    Parameters
    ----------
    n_params, kl, rmse
        The size of the basis and how well it fits; rmse is NaN where the basis grew on a coarser grid than X's.
    aic, bic
        Akaike's and Schwarz's criterion. For counts those that `Inference` reports; if X does not hold counts, or is
        not in memory, ``2 N KL`` plus 2, or log N, for each parameter, where N is the sum of X, without a constant.

    held_out, spread
        The loss on held-out data, summed over the folds, and the standard error of that sum. For ``adaptive("cv")`` on
        counts, events were held out: minus their log-likelihood, in nats per event. For ``adaptive("cv")`` on other
        tensors, and for `decompose` without a basis, cells were held out: the I-divergence of these cells from their
        predictions, for a sum of X of 1; if X has zeros, their squared error, for a sum of squares of 1. NaN for sizes
        that were not tried, and where nothing was held out.

    See Also
    --------
    adaptive : A basis that the data choose.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> fit = ld.decompose(np.random.default_rng(0).poisson(5.0, (6, 6)), ld.adaptive(12))
    >>> fit.path[-1].n_params
    12
    """

    n_params: int
    kl: float
    rmse: float
    aic: float
    bic: float
    held_out: float = math.nan
    spread: float = math.nan

    @classmethod
    def measured(cls, k: int, kl: float, rmse: float, total: float) -> Round:
        """Add the criteria to the size of a basis and how well it fits."""
        deviance = 2.0 * total * kl
        return cls(k, kl, rmse, deviance + 2 * k, deviance + k * float(np.log(total)))

    def _on_grid(self, negentropy: Callable[[], float]) -> Round:  # noqa: ARG002 - for rounds on boxes
        """Restate for every cell of X; `negentropy` sums p log p over them. This round was measured there already."""
        return self


@dataclass(frozen=True)
class RoundOfBoxes(Round):
    """A round on a coarser grid: KL is between boxes of X, to which the entropy of X within boxes is to be added."""

    negentropy: float = math.nan  # of the boxes
    total: float = math.nan  # the sum of X

    @classmethod
    def of(cls, step: Round, negentropy: float, total: float) -> RoundOfBoxes:
        """Take a round that was measured on a tensor of boxes."""
        criteria = step.aic, step.bic, step.held_out, step.spread
        return cls(step.n_params, step.kl, math.nan, *criteria, negentropy, total)

    def _on_grid(self, negentropy: Callable[[], float]) -> Round:
        """Add the entropy of X within boxes."""
        within = negentropy() - self.negentropy
        deviance = 2.0 * self.total * within
        criteria = self.aic + deviance, self.bic + deviance
        return Round(self.n_params, self.kl + within, math.nan, *criteria, self.held_out, self.spread)


def on_grid(rounds: Sequence[Round], data: Observation) -> tuple[Round, ...]:
    """Restate rounds that were measured between boxes for every cell of X, which is read for that; RMSE is unknown."""
    negentropy = cache(data.negentropy)
    return tuple(step._on_grid(negentropy) for step in rounds)


@dataclass(frozen=True, eq=False)
class GrowthPath(Sequence[Round]):
    """The rounds that led to a fit, measured when one of them is first looked at: that reads X, twice."""

    length: int
    measure: Callable[[], tuple[Round, ...]]

    @cached_property
    def _rounds(self) -> tuple[Round, ...]:
        return self.measure()

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, place: int) -> Round: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Round, ...]: ...
    def __getitem__(self, place: int | slice) -> Round | tuple[Round, ...]:
        """Return a round, or several as a tuple."""
        return self._rounds[place]

    def __eq__(self, other: object) -> bool:
        """Compare the rounds with those of another path, or of a list of them."""
        return isinstance(other, Sequence) and self._rounds == tuple(other)

    def __hash__(self) -> int:
        return hash(self._rounds)

    def __repr__(self) -> str:
        return repr(self._rounds)
