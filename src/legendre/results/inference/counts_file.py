"""Counts as a file holds them: read back, and compared with the fit that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.results.file_check import same
from legendre.results.file_format import Archive
from legendre.results.inference.counts import Counts

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

MEANS = 1e-8  # logarithms of means, and their sum, as two ways of summing theta may differ in them


def read_counts(arrays: Archive, fit: Decomposition) -> Counts:
    """Read counts, which sum to the fit's total, and their means, which are those of the fit."""
    n = arrays.floats("n", None)
    alive = arrays.mask("alive", fit.shape)
    if alive is not None and int(alive.sum()) != len(n):
        raise arrays.unfit(f"{len(n)} counts for {int(alive.sum())} cells")
    if (n < 0).any() or (n != np.rint(n)).any() or not same(float(n.sum()), fit.total):
        raise arrays.unfit(f"counts are whole numbers with the sum {fit.total:g}")
    mu, rest = arrays.floats("mu", len(n)), arrays.number("rest")
    if not np.allclose(mu.sum() + rest, fit.total, rtol=MEANS):
        raise arrays.unfit(f"the means of the counts sum to {mu.sum() + rest:g}, where {fit.total:g} is expected")
    if alive is not None:
        found = Counts(n, mu, rest, alive)
        cells = np.argwhere(alive)
    else:
        cells = arrays.integers("cells", len(n), len(fit.shape))
        if (cells < 0).any() or (cells >= fit.shape).any():
            raise arrays.unfit(f"counts outside the grid {fit.shape}")
        found = Counts(n, mu, rest, None, cells, arrays.floats("logs", len(n)))
    logs = fit.distribution.log_prob(cells) + float(np.log(fit.total))
    if not np.allclose(found.log_mu, logs, rtol=MEANS, atol=MEANS):
        raise arrays.unfit("the means of the counts are not those of the fit")
    return found
