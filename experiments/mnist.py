"""Figure 5c, d and the supplement: MNIST, ten tensors 28 x 28 x 500, zeros left out of Omega and kept."""

from __future__ import annotations

from dataclasses import replace

from .arranged import Arranged
from .comparison import ADAPTIVE, COMPARED, NONZERO, PAPER, UNIFORM, Comparison, Row
from .data import digit
from .jobs import Runner
from .settings import UNORDERED, Level
from .store import Store

DIGITS = tuple(range(10))


def run(store: Store[Row], level: Level) -> None:
    """Run ours in all digits, then the peers; with zeros kept the peers are what they are with zeros left out.

    With zeros kept the images, whose order is arbitrary, are arranged as well.
    """
    runner = Runner(store, replace(level, seeds=level.mnist_seeds, efforts=level.mnist_efforts))
    for support, methods in (
        ("all", (UNIFORM, PAPER, ADAPTIVE, UNORDERED)),
        ("nonzero", (UNIFORM, PAPER, ADAPTIVE)),
        ("nonzero", (*COMPARED, NONZERO)),
    ):
        for number in DIGITS:
            comparison = Comparison.of(digit(number), support, f"digit {number}", "B3(l)")
            runner.run(comparison, level.mnist_params, [name for name in methods if name != UNORDERED])
            if UNORDERED in methods:
                unordered = Arranged.without_order(digit(number), (2,), support, f"digit {number}")
                runner.run(unordered, level.mnist_params, (UNORDERED,))
