"""Other ways to fill in missing cells, each at its best: the settings with the least error on the hidden cells."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from .gaps import Bools, Floats

RANKS = (1, 2, 3, 5, 10, 20, 30, 50)
SEEDS = (0, 1, 2)
GCP_STEPS = 200
FIRST, STRIDE, MOST = 200, 200, 5000
"""Steps of NN-CP: first from each seed; and at most, from the best seed, whose error is computed after each stride."""
EARLY = 50
"""The stride at first: where a rank is too large its error is least after few steps."""
STALLED = 0.005
"""NN-CP stops when its error on the hidden cells has fallen by less than this share over the last two strides."""


@dataclass(frozen=True, eq=False)
class Task:
    """A tensor, which of its cells may be seen, the ranks to try, and the error on the hidden cells."""

    X: Floats
    seen: Bools
    ranks: Sequence[int]
    error: Callable[[Floats], float]


def tensorly_cp(task: Task) -> Iterator[tuple[str, Floats]]:
    """Masked nonnegative CP of TensorLy, by rank; the seed, and the step to stop at, are the best on the hidden cells.

    The tensor is scaled to mean 1.
    """
    if find_spec("tensorly") is None:
        return
    import tensorly as tl
    from tensorly.decomposition import non_negative_parafac

    X, seen = task.X, task.seen
    scale = float(X[seen].mean())
    data, mask = tl.tensor(np.where(seen, X, 0.0) / scale), tl.tensor(seen.astype(np.float64))

    def advance(start: Any, rank: int, seed: int, steps: int) -> tuple[Any, Floats, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cp = non_negative_parafac(data, rank, n_iter_max=steps, init=start, random_state=seed, mask=mask, tol=0)
        filled = np.asarray(tl.cp_to_tensor(cp)) * scale
        return cp, filled, task.error(filled)

    for rank in task.ranks:
        runs = []
        for seed in SEEDS:
            state: Any = "random"
            for steps in range(EARLY, FIRST + 1, EARLY):
                state, filled, error = advance(state, rank, seed, EARLY)
                yield f"rank {rank}, seed {seed}, {steps} steps", filled
            runs.append((error, seed, state))
        error, seed, state = min(runs, key=lambda run: run[0])
        errors = [error]
        for steps in range(FIRST + STRIDE, MOST + 1, STRIDE):
            state, filled, error = advance(state, rank, seed, STRIDE)
            yield f"rank {rank}, seed {seed}, {steps} steps", filled
            errors.append(error)
            if len(errors) > 2 and min(errors[-2:]) > (1 - STALLED) * errors[-3]:
                break


def pyttb_gcp(task: Task) -> Iterator[tuple[str, Floats]]:
    """Generalised CP of pyttb with the Poisson objective and a mask, by rank and seed."""
    if find_spec("pyttb") is None:
        return
    from pyttb.gcp.handles import poisson, poisson_grad
    from pyttb.gcp.optimizers import LBFGSB
    from pyttb.gcp_opt import gcp_opt
    from pyttb.tensor import tensor

    X, seen = task.X, task.seen
    scale = float(X[seen].mean())
    mask = tensor(seen.astype(np.float64))
    objective = poisson, poisson_grad, 0.0
    for rank, seed in product(task.ranks, SEEDS):
        rng = np.random.default_rng(seed)
        start = [rng.uniform(0.1, 1.0, size=(n, rank)) for n in X.shape]
        data = tensor(np.where(seen, X, 0.0) / scale)
        with warnings.catch_warnings(), _without_logging():
            warnings.simplefilter("ignore")
            model, _, _ = gcp_opt(data, rank, objective, LBFGSB(maxiter=GCP_STEPS), init=start, mask=mask, printitn=0)
        yield f"rank {rank}, seed {seed}", np.asarray(model.full().data) * scale


def iterative_imputer(task: Task) -> Iterator[tuple[str, Floats]]:
    """Regress each level of the last mode on the others, round after round (scikit-learn)."""
    if find_spec("sklearn") is None:
        return
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - it makes the next import possible
    from sklearn.impute import IterativeImputer

    table = np.where(task.seen, task.X, np.nan).reshape(-1, task.X.shape[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = IterativeImputer(max_iter=10, min_value=0.0, random_state=0).fit_transform(table)
    if filled.shape == table.shape:
        yield "last mode", np.asarray(filled).reshape(task.X.shape)


@contextmanager
def _without_logging() -> Iterator[None]:
    logging.disable(logging.WARNING)  # pyttb logs a line about memory order at every step
    yield
    logging.disable(logging.NOTSET)


OTHERS = {
    "NN-CP (TensorLy)": tensorly_cp,
    "Poisson GCP (pyttb)": pyttb_gcp,
    "IterativeImputer (scikit-learn)": iterative_imputer,
}
