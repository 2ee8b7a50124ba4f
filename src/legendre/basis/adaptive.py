"""A basis that the data choose; `legendre.grow` does the choosing, because it needs fits on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from legendre.arrays import IntArray
from legendre.basis.core import Basis
from legendre.errors import InvalidBasis, unknown_name
from legendre.intake import Observation

CRITERIA = ("aic", "bic")


@dataclass(frozen=True)
class Adaptive(Basis):
    """What to grow: how large or by which criterion, from which basis, out of which cells."""

    size: int | Literal["aic", "bic"]
    start: Basis | str = "empty"
    candidates: Basis | str | None = None

    def select(self, data: Observation) -> IntArray:
        """Refuse: a growing basis is not a fixed set of cells."""
        del data
        raise InvalidBasis(
            "adaptive(...) stands alone: only decompose can grow it, and it cannot be combined with other bases. "
            "Give it a basis to start from instead, e.g. adaptive(500, start='B1')."
        )

    def __repr__(self) -> str:
        extra = "".join(
            f", {name}={value!r}"
            for name, value, default in (("start", self.start, "empty"), ("candidates", self.candidates, None))
            if value != default
        )
        return f"adaptive({self.size!r}{extra})"


def adaptive(
    size: int | Literal["aic", "bic"], *, start: Basis | str = "empty", candidates: Basis | str | None = None
) -> Basis:
    """Let the data choose the basis, a few cells at a time.

    Every candidate cell u is scored at once by what its parameter would lower KL(P, Q), the exact one-parameter gain
    being the divergence between the Bernoulli distributions with means ``eta_hat_u`` and ``eta_u``. Of several cells
    added together each is scored given those before it, so that near-duplicates are left out.

    Parameters
    ----------
    size
        The number of parameters; or, for counts, ``"bic"`` or ``"aic"``: add cells while the criterion falls. Since the
        best of M candidates is taken, ``"bic"`` is the extended criterion with ``log N + 2 log M`` for each parameter
        (Chen and Chen 2008), which adds next to nothing to pure noise; ``"aic"`` asks 2 for each and overfits readily.
    start
        A basis to start from; its cells count.
    candidates
        The cells to choose from, as a basis; by default all of the support.

    Examples
    --------
    >>> import legendre as ld
    >>> X = np.ones((6, 6)); X[3:, 2:] = 5
    >>> fit = ld.decompose(X, ld.adaptive(1))
    >>> fit.basis.tolist(), round(fit.kl, 12)
    ([[3, 2]], 0.0)
    """
    if isinstance(size, str):
        if size not in CRITERIA:
            raise InvalidBasis(unknown_name("criterion", size, CRITERIA))
    elif isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise InvalidBasis(f"adaptive({size!r}): pass a number of parameters >= 1, 'bic' or 'aic'.")
    return Adaptive(size if isinstance(size, str) else int(size), start, candidates)
