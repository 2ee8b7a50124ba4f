"""Cells that many slices share: a basis grown on all of them at once, each slice with parameters of its own."""

from __future__ import annotations

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.parse import as_basis
from legendre.core.errors import InvalidBasis
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import observe
from legendre.tasks.estimators.slice_model import SliceModel

SHARE = 0.125  # of the basis, added in a round; at least one cell
ROUGHLY = 1e-3
"""max|eta - eta_hat| of the fits between rounds; scores take what is left of it into account. KL of digits, 32 cells:
0.0467 with 1e-4, 0.0467 with 1e-3, 0.0465 with 1e-2."""
DEPENDENT = 1e-6  # a variance given the basis, as a share of the variance, below which a feature is nothing new


def shared_cells(p: FloatArray, mass: FloatArray, recipe: Adaptive) -> IntArray:
    """Grow the basis that lowers KL of all slices together most: those of large sums count more.

    A cell's gain is that of `adaptive`, ``g^2 / (2 s)`` with s the variance of its feature given those of the basis,
    summed over the slices.

    Parameters
    ----------
    p
        Distributions, n x ...
    mass
        The share of each in the sum of all.
    recipe
        How many cells, from which start, out of which.
    """
    if isinstance(recipe.n, str):
        raise InvalidBasis(f"{recipe!r}: cells that slices share are grown to a number, such as adaptive(16).")
    shape = p.shape[1:]
    mean = observe(np.einsum("i,i...->...", mass, p))
    basis = as_basis(recipe.include).select(mean)
    cells = as_basis(recipe.candidates or "full").select(mean)
    eta_hat = SliceModel.unmerged(shape, cells).sums_above(p)
    theta = np.zeros((len(p), len(basis)))
    while True:
        model = SliceModel.unmerged(shape, basis)
        at = model.fitted(eta_hat[:, model.places], ROUGHLY, start=theta).at
        count = min(max(1, int(SHARE * len(basis))), recipe.n - len(basis))
        new = _Scores(model, at.eta, eta_hat, mass, cells, count).best(count) if count > 0 else []
        if not new:
            return basis
        basis = np.concatenate([basis, cells[new]])
        theta = np.concatenate([at.theta, np.zeros((len(p), len(new)))], axis=1)


class _Scores:
    """What every candidate would gain, given the features before it: a Cholesky factor for each slice, row by row."""

    def __init__(
        self, model: SliceModel, eta: FloatArray, eta_hat: FloatArray, mass: FloatArray, cells: IntArray, count: int
    ) -> None:
        self._model, self._eta, self._mass, self._n = model, eta, mass, len(cells)
        self._every = np.concatenate([cells, model.basis])
        places = model.quotient.flat_boxes(self._every)
        self._means = eta[:, places]
        self._left = eta_hat[:, places] - self._means  # eta_hat - eta, less what the features before explain
        self._variance = self._means * (1.0 - self._means)
        self._least = DEPENDENT * self._variance
        size = len(eta), len(model.basis) + count, len(self._every)
        self._rows, self._n_rows = np.empty(size), 0  # covariances with the orthogonal parts of the features before
        for place in range(len(cells), len(self._every)):
            self._condition(place)

    def best(self, count: int) -> list[int]:
        """Choose candidates one by one, each given those before it; fewer where none gains anything."""
        found: list[int] = []
        while len(found) < count:
            left, variance = self._left[:, : self._n], self._variance[:, : self._n]
            new = variance > self._least[:, : self._n]
            gain = self._mass @ np.where(new, left**2 / (2.0 * np.where(new, variance, 1.0)), 0.0)
            place = int(gain.argmax()) if self._n else 0
            if not (self._n and gain[place] > 0):
                break
            found.append(place)
            self._condition(place)
        return found

    def _condition(self, place: int) -> None:
        """Add a feature to those that are given."""
        joins = self._model.joins_with(self._every[place : place + 1], self._every)[0]
        row = self._eta[:, joins] - self._means[:, place, None] * self._means
        before = self._rows[:, : self._n_rows]
        row -= np.matmul(before[:, None, :, place], before)[:, 0]
        variance = self._variance[:, place]
        new = variance > self._least[:, place]
        scale = np.where(new, 1.0 / np.sqrt(np.where(new, variance, 1.0)), 0.0)
        row *= scale[:, None]
        self._left -= (self._left[:, place] * scale)[:, None] * row
        self._variance -= row**2
        self._rows[:, self._n_rows] = row
        self._n_rows += 1
