"""What a cell is worth: how much KL rises when it is left out and the others are fitted again."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.sums.joins import explained_by_nearest
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.adaptive.candidates import NEW
from legendre.fitting.adaptive.observed_sums import above
from legendre.fitting.adaptive.state import State, evaluated, fitted, sum_grid, zeta_at

DOUBTFUL = 0.05  # a rise, as a share of KL, from which it is looked whether other parameters rather stay as they are

SHARPLY = 1e-6  # the decrement that is left where a loss is compared with a price, as a share of that
CHORDS = 8  # steps with one factor
OVER = 1.3  # cells that compete for each that is left out
CONSIDERED = 1.6  # cells of a large basis that are looked at for each: faces, 2,000 cells: 95 % of those least missed
MOST_STEPS = 40  # of a fit without a cell


class Losses(NamedTuple):
    """What cells of a basis are worth."""

    each: FloatArray  # how much KL would rise without a cell, by its position; inf for one that was not looked at
    looked_at: IntArray  # positions of the others, in ascending order
    half: FloatArray  # their columns of the inverse of the factor


def losses(state: State, count: int | None = None) -> Losses:
    """Estimate for cells of the basis how much KL would rise without one of them, the others making up for it.

    Wald's form ``theta^2 / (2 (G^-1)_uu)`` is right for a small theta and tends to 0 for a large one. It is multiplied
    by what it is wrong by where no other parameter moves, which is known exactly: with f the feature, of mean eta,
    ``log E exp(-theta f) + theta eta`` in place of ``theta^2 var(f) / 2``. A cell that keeps others empty loses, on
    top of that, what the probability that comes back takes from the data.

    With `count`, only cells of a large basis are looked at that may be among the `count` least missed.
    """
    anchor = state.anchor
    assert anchor is not None
    emptiness, size = _of_emptiness(state), len(state.places)
    positions = np.arange(size)
    if count is None or size <= limits.EVERY_LOSS:
        half = anchor.factor.inverse
    else:
        ground, features = state.ground, anchor.features
        explained = explained_by_nearest(anchor.eta, state.places, ground.shape, features, compiled=ground.compiled)
        spread = 1.0 / np.maximum(1.0 - explained, NEW)
        rough = _finite_losses(state, positions, spread) + emptiness
        positions = np.sort(np.argsort(rough, kind="stable")[: int(CONSIDERED * count) + 8])
        half = anchor.factor.inverse_columns(positions)
    spread = np.einsum("ij,ij->j", half, half)
    each = np.full(size, np.inf)
    each[positions] = _finite_losses(state, positions, spread) + emptiness[positions]
    return Losses(each, positions, half)


def _finite_losses(state: State, positions: IntArray, spread: FloatArray) -> FloatArray:
    """Return Wald's form, corrected; `spread` is the diagonal of the inverse of the correlations."""
    theta, eta, scale = state.at.theta[positions], state.at.eta[state.places[positions]], state.scale[positions]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scaled = np.where(scale > 0, theta / np.where(scale > 0, scale, 1.0), 0.0)
        wald = scaled**2 / (2.0 * spread)
        alone = np.logaddexp(np.log1p(-eta), np.log(eta) - theta) + theta * eta
        ratio = np.where(np.abs(theta) > 1e-3, 2.0 * alone / np.where(scaled == 0, 1.0, scaled) ** 2, 1.0)
    ratio = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)
    return np.where(np.isfinite(wald * ratio), wald * ratio, 0.0)


def least_missed(state: State, loss: Losses, count: int, below: float = math.inf) -> IntArray:
    """List up to `count` cells to leave out together, each given that those before it are gone, worst first.

    Their estimated losses are at most `below`. Of two parameters that can stand for each other, neither is missed; once
    one has gone the other is: with C the inverse of the Fisher matrix, ``theta_v -= C_uv theta_u / C_uu`` and
    ``C_vv -= C_uv^2 / C_uu``. At most one cell that keeps others empty is among them: two may do so together.
    """
    among = np.argsort(loss.each[loss.looked_at], kind="stable")[: int(OVER * count) + 8]
    listed = loss.looked_at[among]
    scale, theta = state.scale[listed], state.at.theta[listed]
    half = loss.half[:, among] * scale
    inverse = half.T @ half
    spread = inverse.diagonal().copy()
    second = np.divide(theta**2, 2.0 * spread, out=np.zeros_like(theta), where=spread > 0)
    ratio = np.divide(loss.each[listed], second, out=np.zeros_like(theta), where=second > 0)
    keeps = np.array([int(place) in state.keepers for place in state.places[listed]], dtype=np.bool_)
    tables = inverse, theta, spread, ratio, keeps, loss.each[listed]
    if state.ground.compiled and state.size >= limits.COMPILED_TURNS:
        from legendre.core.sums.kernels.turns import leave_least

        order, rows = np.empty(min(count, len(listed)), dtype=np.int64), np.empty((count, len(listed)))
        done = leave_least(*tables, below, order, rows)
        return listed[order[:done]]
    return listed[_in_turn(*tables, below, count)]


def _in_turn(
    inverse: FloatArray,
    theta: FloatArray,
    spread: FloatArray,
    ratio: FloatArray,
    keeps: BoolArray,
    now: FloatArray,
    below: float,
    count: int,
) -> IntArray:
    """Choose one cell after the other by its loss `now`, and take from the others what it explains of them."""
    rows, gone = np.empty((count, len(theta))), np.zeros(0, dtype=np.int64)
    while len(gone) < min(count, len(theta)):
        u, done = int(now.argmin()), len(gone)
        if not now[u] < below:
            break
        gone = np.append(gone, u)
        now[u] = np.inf
        if keeps[u]:
            now[keeps] = np.inf
        row = inverse[u] - rows[:done, u] @ rows[:done]
        row = row / np.sqrt(row[u]) if row[u] > 0 else np.zeros_like(row)
        rows[done] = row
        if row[u]:
            theta = theta - row * (theta[u] / row[u])
            spread = spread - row * row
            free = np.isfinite(now) & (spread > 0) & (ratio > 0)
            now[free] = theta[free] ** 2 / (2.0 * spread[free]) * ratio[free]
    return gone


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


def shortened(state: State, gone: IntArray) -> State:
    """Leave cells out, by position; to second order the others make up for it."""
    ground, left = state.ground, np.delete(np.arange(state.size), gone)
    lost = zeta_at(ground, state.places[gone], state.at.theta[gone])
    lost -= float(state.at.q @ lost)
    lost *= state.at.q
    sum_grid(ground, lost, back=True)
    places, theta = state.places[left], state.at.theta[left]
    before = State(ground, places, state.dead, state.at._replace(theta=theta)).anchored()
    assert before.anchor is not None
    dead = state.dead if not state.keepers.intersection(state.places[gone].tolist()) else ground.vanishing(places)
    moved = theta + before.anchor.factor.solve(lost[places] * before.scale) * before.scale
    at = evaluated(ground, places, moved, dead)
    if not at.objective - state.at.objective < DOUBTFUL * state.kl:  # too far for the second order
        plain = evaluated(ground, places, theta, dead)
        at = at if at.objective < plain.objective else plain
    return State(ground, places, dead, at, before.anchor)


def without(state: State, gone: IntArray, goal: float) -> State:
    """Leave cells out and fit the others, until half the squared Newton decrement is at most `goal`."""
    return fitted(shortened(state, gone), goal, MOST_STEPS)[0]


def losses_about(state: State, positions: IntArray, price: float) -> FloatArray:
    """Return how much KL rises without each of some cells, so exactly that it is known which lose less than a price.

    The state must be a fit, its factor fresh. The others are fitted by steps with that factor that leave the parameter
    at 0; without a cell for which that leads nowhere, and one that keeps others empty, there is a fit of its own; in a
    large basis such a cell is taken to be worth its price.
    """
    found = [_loss_by_chords(state, u, price) for u in positions.tolist()]
    if state.size > limits.LARGE_BASIS:
        return np.array([math.inf if loss is None else loss for loss in found])
    far = [u for u, loss in zip(positions.tolist(), found, strict=True) if loss is None]
    exact = dict(zip(far, refitted_losses(state, np.array(far, dtype=np.int64), SHARPLY * price), strict=True))
    return np.array([exact[u] if loss is None else loss for u, loss in zip(positions.tolist(), found, strict=True)])


def _loss_by_chords(state: State, u: int, price: float) -> float | None:
    """Hold a parameter at 0 and step with the factor; ``None`` if that does not soon decide whether it pays."""
    ground, places, anchor, scale = state.ground, state.places, state.anchor, state.scale
    assert anchor is not None
    if not scale[u] or int(places[u]) in state.keepers:
        return None
    unit = np.zeros(state.size)
    unit[u] = scale[u]
    column = anchor.factor.solve(unit) * scale
    theta = state.at.theta - column * (state.at.theta[u] / column[u])
    for _ in range(CHORDS):
        theta[u] = 0.0
        at = evaluated(ground, places, theta, state.dead)
        rise = at.objective - state.at.objective
        gradient = ground.eta_hat[places] - at.eta[places]
        step = anchor.factor.solve(gradient * scale) * scale
        step -= column * (step[u] / column[u])
        left = float(gradient @ step) / 2.0
        if not (math.isfinite(rise) and 0.0 <= left < rise):
            return None
        if rise < price or rise - 2.0 * left >= price or left <= SHARPLY * price:
            return rise if rise < price else rise - left
        theta = theta + step
    return None


def refitted_losses(state: State, positions: IntArray, goal: float) -> FloatArray:
    """Return how much KL rises, up to `goal`, without each of some cells: one fit for each."""
    return np.array([without(state, np.array([u]), goal).kl - state.kl for u in positions.tolist()])
