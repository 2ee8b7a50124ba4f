"""Figure 5a, b: faces, 92 x 112 x 20; error and time against the number of parameters."""

from __future__ import annotations

from legendre.tasks.compare.rows import ADAPTIVE, COMPARED, PAPER, UNIFORM, Row
from legendre.tasks.compare.run import Comparison

from .data import faces
from .jobs import Runner
from .settings import FACES_PARAMS, Level
from .store import Store


def run(store: Store[Row], level: Level) -> None:
    """Run ours, then the peers."""
    comparison = Comparison.of(faces(), problem="faces")
    Runner(store, level).run(comparison, FACES_PARAMS, (UNIFORM, PAPER, ADAPTIVE, *COMPARED))
