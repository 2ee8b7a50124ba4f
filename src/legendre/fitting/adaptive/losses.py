"""What a cell is worth: how much KL rises when it is left out and the others are fitted again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legendre.core.types import FloatArray, IntArray
from legendre.fitting.adaptive.ground import above
from legendre.fitting.adaptive.state import State, zeta_at
from legendre.fitting.adaptive.steps import fitted

NEARLY, SHARPLY = 0.02, 1e-6  # the decrement that is left where a loss is compared with a price, as shares of it
MOST_STEPS = 40  # of a fit without a cell


def losses(state: State) -> FloatArray:
    """Estimate for every cell of the basis how much KL would rise without it, the others making up for it.

    Wald's form ``theta^2 / (2 (G^-1)_uu)`` is right for a small theta and tends to 0 for a large one. It is multiplied
    by what it is wrong by where no other parameter moves, which is known exactly: with f the feature, of mean eta,
    ``log E exp(-theta f) + theta eta`` in place of ``theta^2 var(f) / 2``. A cell that keeps others empty loses, on
    top of that, what the probability that comes back takes from the data.
    """
    anchor, theta, eta = state.anchor, state.at.theta, state.at.eta[state.places]
    assert anchor is not None
    variance = anchor.factor.inverse_diagonal()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scaled = np.where(state.scale > 0, theta / np.where(state.scale > 0, state.scale, 1.0), 0.0)
        wald = scaled**2 / (2.0 * variance)
        alone = np.logaddexp(np.log1p(-eta), np.log(eta) - theta) + theta * eta
        ratio = np.where(np.abs(theta) > 1e-3, 2.0 * alone / np.where(scaled == 0, 1.0, scaled) ** 2, 1.0)
    ratio = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)
    finite = np.where(np.isfinite(wald * ratio), wald * ratio, 0.0)
    return finite + _of_emptiness(state)


def _of_emptiness(state: State) -> FloatArray:
    """Return for every cell what KL rises by when the cells come back that it alone keeps empty."""
    ground, out = state.ground, np.zeros(state.size)
    if state.dead is None:
        return out
    owners = {int(place): i for i, place in enumerate(state.places)}
    revived = zeta_at(ground, state.places, state.at.theta)
    if ground.log_measure is not None:
        revived += ground.log_measure
    with np.errstate(over="ignore"):
        revived = np.where(state.dead, np.exp(revived - state.at.psi), 0.0).reshape(ground.shape)
    regions = ground.empty_regions(state.places)
    covered = np.zeros(ground.shape, dtype=np.int32)
    for low, high in regions:
        _count(covered, low, high)
    owned: dict[int, list[int]] = {}
    for number, region in enumerate(regions):
        for corner in region:
            if corner is not None and (owner := owners.get(int(corner @ ground.strides))) is not None:
                owned.setdefault(owner, []).append(number)
    for owner, numbers in owned.items():
        corner = np.min([regions[number][0] for number in numbers], axis=0)
        part = above(corner)
        own = np.zeros(covered[part].shape, dtype=np.int32)
        for number in numbers:
            low, high = regions[number]
            _count(own, low - corner, None if high is None else high - corner)
        alone = (own > 0) & (own == covered[part])
        out[owner] = np.log1p(float(revived[part][alone].sum()))
    return np.where(np.isfinite(out), out, np.inf)


def _count(grid: NDArray[np.int32], low: IntArray, high: IntArray | None) -> None:
    """Add 1 to all cells above one corner but not above another."""
    grid[above(low)] += 1
    if high is not None:
        grid[above(high)] -= 1


def without(state: State, gone: IntArray, goal: float) -> State:
    """Leave cells out and fit the others, until half the squared Newton decrement is at most `goal`."""
    return fitted(state.shortened(gone), goal, MOST_STEPS).state


def losses_about(state: State, positions: IntArray, price: float) -> FloatArray:
    """Return how much KL rises without each of some cells, so exactly that it is known which lose less than a price."""
    goal = NEARLY * price
    loss = refitted_losses(state, positions, goal)
    unsure = np.flatnonzero(np.abs(loss - price) <= 4.0 * goal)
    loss[unsure] = refitted_losses(state, positions[unsure], SHARPLY * price)
    return loss


def refitted_losses(state: State, positions: IntArray, goal: float) -> FloatArray:
    """Return how much KL rises, up to `goal`, without each of some cells: one fit for each."""
    return np.array([without(state, np.array([u]), goal).kl - state.kl for u in positions.tolist()])
