"""`warm`: compile what large fits need before a service answers its first request."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from legendre.basis.adaptive import adaptive, boxes
from legendre.basis.graph import graph
from legendre.core.errors import ConvergenceWarning
from legendre.data.readers.coordinates import from_coords
from legendre.fitting.fit import decompose
from legendre.tasks.estimators import LegendreDensity


def warm() -> str | None:
    """Compile the functions that large fits use, or load those that an earlier call left on disk.

    The first large fit of a process is otherwise delayed by this, for several seconds. Call this function, or
    run ``legendre warm``, when an image is built, so that compiled code is on disk; and when a service starts, so that
    it is in memory before the first request, in workers that are forked later too. It makes small fits of every kind.

    Returns
    -------
    str or None
        The folder of the compiled code; ``None`` if no folder can be written to. NUMBA_CACHE_DIR chooses one.

    See Also
    --------
    decompose : Fit a tensor.

    Examples
    --------
    >>> import legendre as ld
    >>> folder = ld.warm()                                      # doctest: +SKIP
    """
    from legendre.core.sums.kernels.scan import _scan_rows
    from legendre.core.sums.kernels.slabs import _add_inside, add_level

    rng = np.random.default_rng(0)
    X = (rng.random((1024, 32, 32)) + 0.5) * np.arange(1, 33)  # enough cells for compiled code, and steps that are long
    listed = from_coords((rng.random((60_000, 3)) * 300).astype(np.int64), shape=(300, 300, 300))
    rows = rng.integers(0, 2, (300, 1)) ^ (rng.random((300, 5)) < 0.1)  # columns that depend on each other
    fits: list[tuple[Any, Any]] = [(X.astype(kind), "B1 + B3(1)") for kind in ("f8", "f4", "i8", "i4", "u1")]
    fits += [(np.where(X < 0.6, np.nan, X), "B1"), (X, adaptive(20)), (X[:64], boxes(4)), (X[:128], "B3(400)")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for tensor, basis in fits:
            decompose(tensor, basis, max_iter=3)
        decompose(listed, listed.cells[1::150], support="nonzero", max_iter=3)
        LegendreDensity(graph()).fit(rows).score(rows)
    # what only large dask arrays with gaps need: the masks of a level, its boxes, and their q and mass; and sweeps of
    # three matrices and three that are added to them, onto three
    _add_inside(np.ones(1, np.bool_), np.zeros(1, np.int64), np.ones(1), np.zeros(1))
    one, box = np.ones((1, 1)), np.ones((1, 1, 1))
    add_level(0.0, 0, np.zeros(1, np.int64), box > 0.0, *[one] * 7, box, one)
    return _scan_rows._run.stats.cache_path if hasattr(_scan_rows._run, "stats") else None
