"""Other ways to fill in missing cells, each at its best: the settings with the least error on the hidden cells."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product

import numpy as np

from .gaps import Bools, Floats

RANKS = (1, 2, 3, 5, 10, 20, 30)
SEEDS = (0, 1, 2)
STEPS, GCP_STEPS = 400, 200


def tensorly_cp(X: Floats, seen: Bools) -> Iterator[tuple[str, Floats]]:
    """Masked nonnegative CP of TensorLy, by rank and seed; the tensor is scaled to mean 1."""
    if find_spec("tensorly") is None:
        return
    import tensorly as tl
    from tensorly.decomposition import non_negative_parafac

    scale = float(X[seen].mean())
    data, mask = tl.tensor(np.where(seen, X, 0.0) / scale), tl.tensor(seen.astype(np.float64))
    for rank, seed in product(RANKS, SEEDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cp = non_negative_parafac(
                data, rank, n_iter_max=STEPS, init="random", random_state=seed, mask=mask, tol=1e-7
            )
        yield f"rank {rank}, seed {seed}", np.asarray(tl.cp_to_tensor(cp)) * scale


def pyttb_gcp(X: Floats, seen: Bools) -> Iterator[tuple[str, Floats]]:
    """Generalised CP of pyttb with the Poisson objective and a mask, by rank and seed."""
    if find_spec("pyttb") is None:
        return
    from pyttb.gcp.handles import poisson, poisson_grad
    from pyttb.gcp.optimizers import LBFGSB
    from pyttb.gcp_opt import gcp_opt
    from pyttb.tensor import tensor

    scale = float(X[seen].mean())
    mask = tensor(seen.astype(np.float64))
    objective = poisson, poisson_grad, 0.0
    for rank, seed in product(RANKS, SEEDS):
        rng = np.random.default_rng(seed)
        start = [rng.uniform(0.1, 1.0, size=(n, rank)) for n in X.shape]
        data = tensor(np.where(seen, X, 0.0) / scale)
        with warnings.catch_warnings(), _without_logging():
            warnings.simplefilter("ignore")
            model, _, _ = gcp_opt(data, rank, objective, LBFGSB(maxiter=GCP_STEPS), init=start, mask=mask, printitn=0)
        yield f"rank {rank}, seed {seed}", np.asarray(model.full().data) * scale


def iterative_imputer(X: Floats, seen: Bools) -> Iterator[tuple[str, Floats]]:
    """Regress each level of the last mode on the others, round after round (scikit-learn)."""
    if find_spec("sklearn") is None:
        return
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - it makes the next import possible
    from sklearn.impute import IterativeImputer

    table = np.where(seen, X, np.nan).reshape(-1, X.shape[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = IterativeImputer(max_iter=10, min_value=0.0, random_state=0).fit_transform(table)
    if filled.shape == table.shape:
        yield "last mode", np.asarray(filled).reshape(X.shape)


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
