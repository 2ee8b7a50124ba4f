"""Figure 5a, b: faces, 92 x 112 x 20; error and time against the number of parameters."""

from __future__ import annotations

from .arranged import Arranged
from .comparison import ADAPTIVE, COMPARED, PAPER, UNIFORM, Comparison, Row
from .data import faces
from .jobs import Runner
from .settings import FACES_PARAMS, UNORDERED, Level
from .store import Store


def run(store: Store[Row], level: Level) -> None:
    """Run ours, then the peers; the order of the 20 people is arbitrary, that of rows and columns is not."""
    X = faces()
    runner = Runner(store, level)
    runner.run(Comparison.of(X, problem="faces"), FACES_PARAMS, (UNIFORM, PAPER, ADAPTIVE))
    runner.run(Arranged.without_order(X, (2,), problem="faces"), FACES_PARAMS, (UNORDERED,))
    runner.run(Comparison.of(X, problem="faces"), FACES_PARAMS, COMPARED)
