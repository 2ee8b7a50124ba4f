"""Classes of rows that were not observed: each has a graph and tables of its own, found by expectation-maximisation.

The likelihood is not concave, so that what is found depends on where it starts. The start is deterministic: one class
is split in two along the leading principal component of its rows, and so are all classes, as long as held-out rows are
predicted better. An M step learns graph and tables anew from the rows of each class; rows that belong to it by less
than one per cent are left out, so that the likelihood may fall. Held-out rows decide when to stop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from legendre.basis.graph import Graph
from legendre.core.errors import InvalidSamples
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray
from legendre.fitting.graph_search import Columns, search
from legendre.fitting.networks import Mixture, Network


@dataclass(frozen=True, eq=False)
class Tried:
    """Classes that were learned with some settings, and how they predict held-out rows."""

    share: float  # of the criterion's price of a parameter
    strength: float  # pseudo-counts by which a table is shrunk to the one without its last parent
    mixture: Mixture
    posterior: FloatArray  # the probability of each class for each row, rows x classes
    held_out: float  # the mean log-likelihood of held-out rows

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.mixture.parts)


def learn_classes(
    columns: Columns,
    valid: Columns | None,
    recipe: Graph,
    classes: int | Literal["auto"],
    most: int = 128,
    settings: tuple[tuple[float, float], ...] = ((0.5, 8.0), (0.5, 32.0)),
) -> list[Tried]:
    """Double the number of classes as long as held-out rows gain, with each setting; list all that was tried.

    Without held-out rows every tenth row is. The last one is the best, learned once more from all rows. With a number
    of classes, doubling ends there, and the last split is of the classes with the most rows.
    """
    every = columns
    if valid is None:
        held = np.arange(len(columns.weights)) % 10 == 9
        if not held.any():
            raise InvalidSamples("classes are chosen on held-out rows: pass at least ten rows, or valid.")
        columns, valid = (columns.take(some) for some in (~held, held))
    columns, valid = columns.merge(), valid.merge()
    tried: list[Tried] = []
    for share, strength in settings:
        best, weights = None, columns.weights[:, None]
        while True:
            found = _ascend(columns, valid, recipe, share, strength, weights)
            tried.append(found)
            enough = found.n_classes >= (most if classes == "auto" else classes)
            if classes == "auto" and best is not None and found.held_out <= best.held_out:
                break
            best = found
            if enough:
                break
            weights = _split_all(columns, found, None if classes == "auto" else classes)
            if weights.shape[1] == found.n_classes:
                break
    fitting = [run for run in tried if classes == "auto" or run.n_classes == classes] or tried
    best = max(fitting, key=lambda run: run.held_out)
    tried = [run for run in tried if run is not best]
    if columns.total < every.total:  # rows were held out
        weights = best.mixture.posterior(every) * every.weights[:, None]
        mixture = _learn(every, weights, recipe, best.share, best.strength)
        best = replace(best, mixture=mixture, posterior=mixture.posterior(every))
    return [*tried, best]


def _learn(columns: Columns, weights: FloatArray, recipe: Graph, share: float, strength: float) -> Mixture:
    """M step: learn each class from its share of the rows."""
    base = _margins(columns)
    networks = [_learn_class(columns, own, recipe, share, strength, base) for own in weights.T]
    return Mixture(np.log(weights.sum(axis=0) / weights.sum()), networks)


def _ascend(
    columns: Columns, valid: Columns, recipe: Graph, share: float, strength: float, weights: FloatArray,
    most: int = 30, rise: float = 2e-3, least: float = 20.0,
) -> Tried:  # fmt: skip
    """Take M and E steps while held-out rows gain at least `rise`; classes of fewer than `least` rows are dropped."""
    from scipy.special import logsumexp

    best: Tried | None = None
    for _ in range(most):
        weights = weights[:, weights.sum(axis=0) > min(least, 0.5 * columns.total)]
        mixture = _learn(columns, weights, recipe, share, strength)
        logs = mixture.joint(columns)
        posterior = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        weights = posterior * columns.weights[:, None]
        held_out = float(valid.weights @ logsumexp(mixture.joint(valid), axis=1)) / valid.total
        before = -np.inf if best is None else best.held_out
        if held_out > before:
            best = Tried(share, strength, mixture, posterior, held_out)
        if held_out <= before + rise:
            break
    assert best is not None
    return best


def _learn_class(
    columns: Columns, weights: FloatArray, recipe: Graph, share: float, strength: float, base: FloatArray,
    least: float = 0.01,
) -> Network:  # fmt: skip
    """Learn the graph and the tables of one class; its margins are shrunk to those of all rows."""
    rows = np.flatnonzero(weights > least)
    own = columns.take(rows, weights[rows])
    criterion = recipe.criterion
    price = 0.5 * np.log(max(own.total, 3.0)) if isinstance(criterion, str) and criterion != "aic" else criterion
    price = 1.0 if price == "aic" else float(price)
    found = search(own, replace(recipe, criterion=share * price), Labels(tuple(columns.sizes.tolist())))
    return Network.count(found, own).smooth(strength, base)


def _margins(columns: Columns) -> FloatArray:
    """Return the share of each level of each column, with one pseudo-count, all in a row."""
    out = []
    for codes, size in zip(columns.codes, columns.sizes.tolist(), strict=True):
        counts = np.bincount(codes[codes < size], columns.weights[codes < size], size) + 1.0 / size
        out.append(counts / counts.sum())
    return np.concatenate(out)


def _split_all(columns: Columns, found: Tried, classes: int | None) -> FloatArray:
    """Split classes in two, all of them, or the largest ones up to a number."""
    weights = found.posterior * columns.weights[:, None]
    order = np.argsort(-weights.sum(axis=0), kind="stable")
    n_splits = len(order) if classes is None else min(len(order), classes - len(order))
    parts: list[AnyArray] = []
    for place, k in enumerate(order.tolist()):
        parts += _split(columns, weights[:, k]) if place < n_splits else [weights[:, k]]
    return np.stack(parts, axis=1)


def _split(columns: Columns, weights: FloatArray, steps: int = 30) -> list[AnyArray]:
    """Part rows softly along the leading principal component of the indicators of all levels but the first.

    By power iteration from a fixed start.
    """
    rows = np.flatnonzero(weights > 1e-3 * float(weights.max()))
    own = weights[rows].astype(np.float32)
    marks = [columns.codes[columns.sizes > level][:, rows] == level for level in range(1, int(columns.sizes.max()))]
    levels = np.concatenate(marks).astype(np.float32)  # levels x rows
    levels -= (levels @ own / own.sum())[:, None]
    axis = np.sqrt(levels**2 @ own)
    for _ in range(steps):
        axis = levels @ (own * (axis @ levels))
        axis /= float(np.linalg.norm(axis)) + 1e-30
    place = (axis @ levels).astype(np.float64)
    width = float(np.sqrt(own @ place**2 / own.sum())) + 1e-12
    half = np.zeros(len(weights))
    half[rows] = 1.0 / (1.0 + np.exp(-3.0 * place / width))
    return [weights * half, weights * (1.0 - half)]
