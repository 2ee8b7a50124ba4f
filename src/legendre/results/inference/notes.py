"""What to know before the numbers of an inference are believed, in a statistician's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.text import listed_words
from legendre.core.types import FloatArray
from legendre.data.observation import beyond_memory
from legendre.solvers.status import Status

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

SMALL, TINY = 5.0, 1.0  # Cochran's rule: chi-square is trusted while fitted counts are mostly 5 or more, and all 1
SHARE = 0.2  # of fitted counts that may be below 5
NAMED = 4  # cells that are named


def notes_of(tests: Inference) -> tuple[str, ...]:
    """List the sentences, the gravest first."""
    fit = tests.fit
    notes = [*boundary_notes(fit)]
    if small := small_counts(tests):
        notes.append(small)
    if fit.path:
        notes.append("the data chose the basis: p-values of fit are too large, those of parameters too small")
    if fit.status is Status.UNDECIDED:
        notes.append("whether all theta are finite was not decided: standard errors may be far too large")
    return tuple(notes)


def boundary_notes(fit: Decomposition) -> tuple[str, ...]:
    """Say that there is no maximum likelihood estimate, which cells are the reason, and what is reported instead."""
    if fit.status is not Status.AT_BOUNDARY:
        return ()
    return (
        f"the maximum likelihood estimate does not exist: the likelihood rises for ever as the means of "
        f"{_cells(fit)} go to 0, and some parameters to infinity with them.",
        "reported instead is the limit: fitted counts and the likelihood are its own, degrees of freedom are counted "
        "on the other cells, and parameters or contrasts that stay finite have their usual standard errors.",
    )


def _cells(fit: Decomposition) -> str:
    n = fit.n_vanishing
    if n > 1_000_000 or (fit.model.support.points is not None and n > NAMED):
        return f"{n:,} cells without counts"
    labels = fit.labels.straight()
    named = [f"({labels.cell(cell)})" for cell in fit.vanishing_cells[:NAMED]]
    if n <= NAMED:
        return f"{'the cell' if n == 1 else 'the cells'} {listed_words(named)}"
    return f"{n:,} cells without counts, {', '.join(named)} and others,"


def small_counts(tests: Inference) -> str:
    """Warn of fitted counts that are too small for the chi-square distribution; empty where they are not."""
    if not tests.df:
        return ""
    mu, others, mean = _means(tests)
    n = len(mu) + others
    below = int((mu < SMALL).sum()) + (others if mean < SMALL else 0)
    least = float(f"{min(float(mu.min(initial=np.inf)), mean):.9g}")  # 1.25 whatever rounding made of it
    if below <= SHARE * n and least >= TINY:
        return ""
    firmer = "differences of G2 between two models with few parameters are on firmer ground."
    few = f"{below:,} of {n:,} fitted counts are below {SMALL:g}, the smallest {least:.2g}: the chi-square distribution"
    if np.isnan(tests.x2):  # rows lack values: there is no X2, and no bootstrap
        return f"{few} of G2 is rough; {firmer}"
    return (
        f"{few} of G2 and X2 is rough, and where they disagree neither p-value can be trusted. bootstrap() gives "
        f"p-values without it; {firmer}"
    )


def _means(tests: Inference) -> tuple[FloatArray, int, float]:
    """Return the means of the cells that do not vanish; of a list too long to form the number and mean of the rest."""
    counts, fit = tests.counts, tests.fit
    others = 0 if counts.alive is not None else fit.model.support.n_cells - fit.n_vanishing - len(counts.mu)
    if not others or beyond_memory(fit.shape) is not None:
        return counts.mu, others, counts.rest / others if others else np.inf
    means = np.exp(fit.distribution.log_prob(fit.model.support.cells())) * fit.total
    return means[means > 0], 0, np.inf
