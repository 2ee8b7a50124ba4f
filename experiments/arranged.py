"""A basis grown on levels that the data arrange: the order of people, of images or of zones is nobody's choice."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields

import legendre as ld
from legendre.core.types import FloatArray

from .comparison import Comparison, Row, score, time_fit
from .settings import UNORDERED


@dataclass(frozen=True, eq=False)
class Arranged(Comparison):
    """A tensor of which some modes have no order of their own."""

    modes: tuple[int, ...] = ()

    @classmethod
    def without_order(cls, X: FloatArray, modes: tuple[int, ...], support: str = "all", problem: str = "") -> Arranged:
        """Name the modes whose levels may come in any order."""
        plain = Comparison.of(X, support, problem)
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)}, modes=modes)

    def jobs(self, params: Sequence[int], seeds: int, methods: Sequence[str]) -> list[Row]:
        """List one fit for each number of parameters."""
        del seeds, methods
        return [Row(UNORDERED, n, None, "SKIPPED", problem=self.problem, support=self.support) for n in params]

    def run(self, job: Row) -> tuple[Row, ...]:
        """Arrange the levels, grow and fit; all of it counts."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ld.ConvergenceWarning)  # the row has status and residual
            fit, seconds = time_fit(lambda: ld.decompose(self.data, ld.adaptive(job.asked), unordered=self.modes))
        return (
            Row(
                UNORDERED, job.asked, None, fit.status.name, fit.n_params, fit.n_iter, seconds=seconds,
                residual=fit.residual, problem=self.problem, support=self.support, note=f"modes {self.modes} arranged",
                **score(self.X, fit.without_labels().tensor()),
            ),
        )  # fmt: skip


def arrangement_bits(levels: int) -> float:
    """Return the bits that name one of all orders of the levels.

    >>> round(arrangement_bits(4), 3)  # 24 orders
    4.585
    """
    return math.lgamma(levels + 1) / math.log(2)
