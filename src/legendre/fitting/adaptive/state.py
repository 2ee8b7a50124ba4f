"""The state of a growing basis: cells, theta, the factor of their features' correlations, and eta of every cell.

Faces and rank are not searched for between rounds. Two rules, decided cell by cell, take out what surely vanishes
(`Ground.vanishing`); a little on the diagonal of the factor makes dependent parameters harmless; the last fit, an
ordinary one, does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import stored
from legendre.core.sums.blas_threads import dot
from legendre.core.sums.growing_factor import GrowingFactor
from legendre.core.sums.joins import Features, correlations, inverse_deviation
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.adaptive.ground import Ground
from legendre.results.rounds import Round

DAMPING = 1e-9  # added to the correlations' diagonal: what depends on other parameters is not moved far
MOST_DAMPING = 0.1
DOUBTFUL = 0.05  # a rise, as a share of KL, from which it is looked whether other parameters rather stay as they are
FARTHEST = 1e100  # no step leads to theta this large, whose square is still a number


@dataclass(frozen=True, eq=False)
class Member:
    """A member of the model: theta, and everything of every cell that follows from it."""

    theta: FloatArray
    z: FloatArray  # sums of theta below each cell, plus the log measure: log q up to psi; -inf where q = 0
    q: FloatArray
    eta: FloatArray
    psi: float
    objective: float  # psi - theta . eta_hat


@dataclass(frozen=True, eq=False)
class Anchor:
    """The factor of the correlations between the features of the basis, and the distribution they were taken under."""

    eta: FloatArray
    features: Features
    factor: GrowingFactor
    damping: float = DAMPING


@dataclass(frozen=True, eq=False)
class State:
    """A basis and a fit to it."""

    ground: Ground
    places: IntArray  # the cells of the basis, in order
    dead: BoolArray | None  # cells of the grid that vanish
    at: Member
    anchor: Anchor | None = None  # None: not computed yet

    @classmethod
    def of(cls, ground: Ground, places: IntArray, theta: FloatArray) -> State:
        """Evaluate theta."""
        dead = ground.vanishing(places)
        return cls(ground, places, dead, evaluated(ground, places, theta, dead))

    @classmethod
    def unpack(cls, ground: Ground, arrays: Mapping[str, Any], prefix: str = "") -> State:
        """Evaluate a state that `pack` listed."""
        cells = stored.cells(arrays, f"{prefix}cells", ground.shape)
        theta = stored.floats(arrays, f"{prefix}theta", len(cells))
        if np.abs(theta).max(initial=0.0) > FARTHEST:
            raise ValueError(f"{prefix}theta is as large as {np.abs(theta).max():g}")
        with np.errstate(all="ignore"):  # theta of a file may be anything
            return cls.of(ground, ground.places(cells), theta)

    def pack(self, prefix: str = "") -> dict[str, Any]:
        """List the arrays that `unpack` needs."""
        return {f"{prefix}cells": self.cells, f"{prefix}theta": self.at.theta}

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.places)

    @cached_property
    def cells(self) -> IntArray:
        """The cells of the basis, k x N."""
        return self.ground.cells(self.places)

    @property
    def kl(self) -> float:
        """KL(P, Q)."""
        return max(self.ground.negentropy + self.at.objective, 0.0)

    @cached_property
    def gradient(self) -> FloatArray:
        """``eta_hat - eta`` of the basis."""
        return np.asarray(self.ground.eta_hat[self.places] - self.at.eta[self.places])

    @cached_property
    def scale(self) -> FloatArray:
        """One over the standard deviations of the features here: correlations may be old, these need not be."""
        return inverse_deviation(self.at.eta[self.places])

    @cached_property
    def keepers(self) -> set[int]:
        """The places of cells that keep others empty, see `Ground.vanishing`."""
        corners = [u for region in self.ground.empty_regions(self.places) for u in region if u is not None]
        return {int(u @ self.ground.strides) for u in corners}

    @property
    def fresh(self) -> bool:
        """Whether the factor was computed here, for all cells at once."""
        return self.anchor is not None and self.anchor.eta is self.at.eta

    def round(self) -> Round:
        """Measure the size of the basis and how well it fits."""
        return self.ground.round(self.size, self.kl, self.at.q)

    def moved(self, member: Member) -> State:
        """Go to another theta; cells and factor stay."""
        return State(self.ground, self.places, self.dead, member, self.anchor)

    def anchored(self) -> State:
        """Factorise the correlations here."""
        return self if self.fresh else replace(self, anchor=anchored_at(self))

    def extended(self, new: IntArray, features: Features, left: FloatArray, lower: FloatArray) -> State:
        """Add cells with parameters 0, and their rows to the factor."""
        anchor, places = self.anchor, np.concatenate([self.places, new])
        assert anchor is not None
        grown = replace(anchor, features=anchor.features.joined(features), factor=anchor.factor.appended(left, lower))
        theta, dead = np.append(self.at.theta, np.zeros(len(new))), self.ground.vanishing(places, self.size, self.dead)
        at = replace(self.at, theta=theta)
        if dead is not None and (self.dead is None or not np.array_equal(dead, self.dead)):
            at = evaluated(self.ground, places, theta, dead)
        return State(self.ground, places, dead, at, grown)

    def shortened(self, gone: IntArray) -> State:
        """Leave cells out, by position; to second order the others make up for it."""
        ground, left = self.ground, np.delete(np.arange(self.size), gone)
        lost = zeta_at(ground, self.places[gone], self.at.theta[gone])
        lost -= dot(self.at.q, lost)
        lost *= self.at.q
        ground.sum_above(lost)
        places, theta = self.places[left], self.at.theta[left]
        before = State(ground, places, self.dead, replace(self.at, theta=theta))
        anchor = anchored_at(before)
        dead = self.dead if not self.keepers.intersection(self.places[gone].tolist()) else ground.vanishing(places)
        theta_now = theta + anchor.factor.solve(lost[places] * before.scale) * before.scale
        at = evaluated(ground, places, theta_now, dead)
        if not at.objective - self.at.objective < DOUBTFUL * self.kl:  # too far for the second order
            plain = evaluated(ground, places, theta, dead)
            at = at if at.objective < plain.objective else plain
        return State(ground, places, dead, at, anchor)


def anchored_at(state: State) -> Anchor:
    """Factorise the correlations of a state's features; more is added to the diagonal where rounding asks for it."""
    features, damping = Features.of(state.at.eta, state.places, state.ground.offsets(state.places)), DAMPING
    while True:
        matrix = correlations(state.at.eta, features, features, lower=True)
        np.fill_diagonal(matrix, 1.0 + damping)
        factor = GrowingFactor.of(matrix)
        if factor is not None:
            return Anchor(state.at.eta, features, factor, damping)
        damping *= 10.0
        if damping > MOST_DAMPING:  # eta holds what is no number: steps along the diagonal alone
            return Anchor(state.at.eta, features, GrowingFactor.of(np.eye(state.size)) or GrowingFactor(), damping)


def zeta_at(ground: Ground, places: IntArray, values: FloatArray) -> FloatArray:
    """Sum values, which stand on some cells, over what is at or below each cell."""
    grid = np.zeros(ground.p.size)
    grid[places] = values
    ground.sum_below(grid)
    return grid


def log_density(ground: Ground, places: IntArray, theta: FloatArray, dead: BoolArray | None) -> FloatArray:
    """Return the logarithm of q up to psi; -inf where q = 0."""
    z = zeta_at(ground, places, theta)
    if ground.log_measure is not None:
        z += ground.log_measure
    if dead is not None:
        z[dead] = -np.inf
    return z


def evaluated(ground: Ground, places: IntArray, theta: FloatArray, dead: BoolArray | None) -> Member:
    """Evaluate the member of the model with parameters theta, without the cells that vanish."""
    return decoded(ground, places, theta, log_density(ground, places, theta, dead))


def decoded(ground: Ground, places: IntArray, theta: FloatArray, z: FloatArray) -> Member:
    """Compute q, eta and psi from the logarithms of q up to a constant."""
    top = float(z.max())
    q = np.subtract(z, top)
    np.exp(q, out=q)
    total = float(q.sum())
    q /= total
    eta = q.copy()
    ground.sum_above(eta)
    psi = top + math.log(total) if total > 0 else math.nan
    return Member(theta, z, q, eta, psi, psi - dot(theta, ground.eta_hat[places]))
