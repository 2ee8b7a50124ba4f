"""Cross-validation: observed cells are held out in turn, and bases compared by how well they are filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import xlogy

from legendre.core.errors import InvalidBasis, InvalidSetting
from legendre.core.text_table import aligned
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.results.base import Storable
from legendre.results.file import Archive, Arrays, nested, pack_plain, read_plain

CRITERIA = ("deviance", "rmse")
RULE = 40
"""The length of the rule under the title."""
MOSTLY = 0.5
"""A basis that leaves more than this share of the held-out cells undetermined is no candidate."""

Fill = Callable[[BoolArray], Sequence[FloatArray]]
"""From the cells that may be seen to one completed tensor per candidate, NaN where a cell is not determined."""


@dataclass(frozen=True)
class Score:
    """How well a basis fills in held-out cells.

    Parameters
    ----------
    basis
        Which one.
    rmse, rmse_se
        Root mean square error in X's units: mean over the folds and its standard error.
    deviance, deviance_se
        Poisson deviance ``2 (x log(x / m) - x + m)`` per cell, twice the generalised KL divergence; infinite where the
        model says 0 and X does not.
    undetermined
        Held-out cells that the others do not determine; they are not scored.
    """

    basis: str
    rmse: float
    rmse_se: float
    deviance: float
    deviance_se: float
    undetermined: int


@dataclass(frozen=True)
class CrossValidation(Storable):
    """The table of a cross-validation; print it.

    Parameters
    ----------
    scores
        One `Score` per candidate, in the order given; NaN for one that leaves most held-out cells undetermined.
    best
        The place of the best one.
    n_folds, folds
        How many, and of what: ``"cells"`` or the modes of the fibres.
    held_out, scored
        Cells that were held out, and how many of them all candidates that were compared determine.
    criterion
        What `best` goes by.
    """

    format: ClassVar[str] = "legendre-cross-validation"

    scores: tuple[Score, ...]
    best: int
    n_folds: int
    folds: str
    held_out: int
    scored: int
    criterion: str

    def summary(self) -> str:
        """Return the table under its title."""
        return f"Cross-validation\n{'-' * RULE}\n{self}"

    def to_arrays(self) -> Arrays:
        """List the scores and what they are about."""
        columns = {part.name: [getattr(score, part.name) for score in self.scores] for part in fields(Score)}
        return pack_plain(self) | nested("scores", columns)

    @classmethod
    def from_arrays(cls, arrays: Archive) -> Self:
        """Put the table together again."""
        part, plain = arrays.part("scores"), read_plain(cls, arrays)
        n = len(part.array("basis", "U", (None,)))
        if not 0 <= plain["best"] < n:
            raise arrays.unfit(f"the best of {n} bases has number {plain['best']}")
        numbers = ("rmse", "rmse_se", "deviance", "deviance_se")
        columns: list[Any] = [part.floats(name, n, finite=False).tolist() for name in numbers]
        rows = zip(part.texts("basis", n), *columns, part.integers("undetermined", n).tolist(), strict=True)
        return cls(scores=tuple(Score(*row) for row in rows), **plain)

    def __str__(self) -> str:
        head = ("", "basis", "deviance per cell", "RMSE", "undetermined")
        rows = [head, *(_line(score, at == self.best) for at, score in enumerate(self.scores))]
        title = f"{self.n_folds} folds of {self.folds}; {self.scored} of {self.held_out} held-out cells scored"
        return "\n".join([title, *aligned(rows, "<")])


def _line(score: Score, best: bool) -> tuple[str, str, str, str, str]:
    deviance = f"{score.deviance:.5g} +- {score.deviance_se:.2g}"
    rmse = f"{score.rmse:.5g} +- {score.rmse_se:.2g}"
    return "*" if best else "", score.basis, deviance, rmse, str(score.undetermined)


def cross_validate(
    values: FloatArray, turns: IntArray, names: Sequence[str], fill: Fill, *, criterion: str, folds: str
) -> CrossValidation:
    """Hold out fold after fold, and score what each candidate fills in.

    All candidates are scored on the same cells: those that each of them determines, apart from candidates that leave
    most cells undetermined.
    """
    n_folds = int(turns.max()) + 1
    filled = np.full((len(names), *values.shape), np.nan)
    for turn in range(n_folds):
        held, left = turns == turn, (turns >= 0) & (turns != turn)
        if not (values[left] > 0).any():
            raise InvalidSetting(f"folds: without the cells of fold {turn} X is zero everywhere. Use fewer folds.")
        for answer, tensor in zip(filled, fill(left), strict=True):
            answer[held] = tensor[held]
    held_out = turns >= 0
    open_cells = np.isnan(filled[:, held_out])
    usable = open_cells.mean(axis=1) <= MOSTLY
    if len(names) > 1 and not usable.any():
        raise InvalidBasis(
            f"folds: every candidate leaves more than half of the held-out cells undetermined ({folds}). "
            "Offer smaller bases, or hold out cells instead of fibres: hold_out='cells'."
        )
    common = held_out & ~np.isnan(filled[usable]).any(axis=0)
    scores = tuple(
        _score(name, values, answer, turns, common if ok else np.zeros_like(common), int(lost))
        for name, answer, ok, lost in zip(names, filled, usable, open_cells.sum(axis=1), strict=True)
    )
    best = min(range(len(scores)), key=lambda at: _merit(scores[at], criterion))
    scored = int(common.sum()) if usable.any() else 0
    return CrossValidation(scores, best, n_folds, folds, int(held_out.sum()), scored, criterion)


def _merit(score: Score, criterion: str) -> tuple[float, ...]:
    """Smaller is better: where the deviance is infinite for several, the RMSE decides."""
    errors = (score.deviance, score.rmse) if criterion == "deviance" else (score.rmse,)
    return tuple(np.inf if np.isnan(error) else error for error in errors)


def _score(
    name: str, values: FloatArray, filled: FloatArray, turns: IntArray, cells: BoolArray, undetermined: int
) -> Score:
    parts = [cells & (turns == turn) for turn in range(int(turns.max()) + 1)]
    pairs = [(values[part], filled[part]) for part in parts if part.any()]
    square = np.array([np.sqrt(np.mean((x - m) ** 2)) for x, m in pairs])
    deviance = np.array([np.mean(poisson_deviance(x, m)) for x, m in pairs])
    return Score(name, *_mean_and_error(square), *_mean_and_error(deviance), undetermined)


def poisson_deviance(x: FloatArray, mean: FloatArray) -> FloatArray:
    """``2 (x log(x / m) - x + m)``, cell by cell.

    Examples
    --------
    >>> poisson_deviance(np.array([0.0, 2.0, 1.0]), np.array([3.0, 2.0, 0.0])).tolist()
    [6.0, 0.0, inf]
    """
    with np.errstate(divide="ignore"):
        cross = np.where(x > 0, x * np.log(np.where(x > 0, mean, 1.0)), 0.0)
    deviance: FloatArray = 2.0 * (xlogy(x, x) - cross - x + mean)
    return deviance


def _mean_and_error(errors: FloatArray) -> tuple[float, float]:
    if not len(errors):
        return np.nan, np.nan
    mean = float(errors.mean())
    if len(errors) < 2 or not np.isfinite(mean):
        return mean, np.nan
    return mean, float(errors.std(ddof=1) / np.sqrt(len(errors)))
