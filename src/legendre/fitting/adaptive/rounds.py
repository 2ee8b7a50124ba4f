"""Growing round by round: forward to the size, then swaps, then backward to put the cells in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from legendre.core.types import FloatArray, IntArray
from legendre.fitting.adaptive.search import Search
from legendre.fitting.adaptive.state import Grown, shortened, unpack_state
from legendre.results.rounds import Round, pack_rounds, unpack_rounds

Phase = Literal["forward", "swap", "backward", "end"]


@dataclass(frozen=True, eq=False)
class Stage:
    """Where growing stands.

    Parameters
    ----------
    phase
        ``"forward"``: cells are added. ``"swap"``: they are added again after some were left out. ``"backward"``: they
        are left out, the least missed first.
    fit
        The fit that changes from round to round.
    best
        The one to beat in a swap, and to put in order afterwards.
    rounds
        The way so far, of growing or of leaving out.
    swaps
        How many swaps have paid.
    dropped
        The cells that went in each round on the way back.
    """

    phase: Phase
    fit: Grown
    best: Grown
    rounds: tuple[Round, ...] = ()
    swaps: int = 0
    dropped: tuple[IntArray, ...] = ()


@dataclass(eq=False)
class Growing:
    """A basis that grows; `stage` changes in one assignment, so that an interrupt finds it whole."""

    search: Search
    swaps: int
    stage: Stage

    @classmethod
    def first(cls, search: Search, swaps: int) -> Growing:
        """Begin with the start alone."""
        fit = search.first()
        return cls(search, swaps, Stage("forward", fit, fit, (fit.round(),)))

    def advance(self) -> bool:
        """Do one round; tell whether there is more to do."""
        steps = {"forward": self._forward, "swap": self._swap, "backward": self._backward}
        self.stage = steps[self.stage.phase](self.stage)
        return self.stage.phase != "end"

    def told(self) -> str:
        """Say in a few words where growing stands."""
        names = {"forward": "growing", "swap": "swapping", "backward": "ordering", "end": "grown"}
        fit = self.stage.fit
        return f"{names[self.stage.phase]}   {fit.n_params} of {self.search.most} parameters   KL = {fit.kl:.4g}"

    def _forward(self, stage: Stage) -> Stage:
        larger = self.search.larger(stage.fit)
        if larger is not None:
            return replace(stage, fit=larger, rounds=(*stage.rounds, larger.round()))
        return self._next_swap(replace(stage, best=stage.fit))

    def _next_swap(self, stage: Stage) -> Stage:
        """Leave out the cells that are missed least, for what is then worth most; or leave it at that."""
        if stage.swaps == self.swaps:
            return self._settled(stage)
        smaller = shortened(stage.best, self.search.least_missed(stage.best))
        return replace(stage, phase="swap", fit=smaller)

    def _swap(self, stage: Stage) -> Stage:
        larger = self.search.larger(stage.fit)
        if larger is not None:
            return replace(stage, fit=larger)
        if self.search.cost(stage.fit) >= self.search.cost(stage.best):
            return self._settled(stage)
        return self._next_swap(replace(stage, best=stage.fit, swaps=stage.swaps + 1))

    def _settled(self, stage: Stage) -> Stage:
        """Keep the order of growing, unless swaps have mixed it up."""
        if not stage.swaps:
            return replace(stage, phase="end")
        return replace(stage, phase="backward", fit=stage.best, rounds=())

    def _backward(self, stage: Stage) -> Stage:
        """Leave out the least missed again and again, to order the cells by how long they stay."""
        fit, gone = stage.fit, self.search.least_missed(stage.fit)
        rounds, dropped = (*stage.rounds, fit.round()), (*stage.dropped, fit.cells[gone])
        if not len(gone):
            return replace(stage, phase="end", rounds=rounds, dropped=dropped)
        return replace(stage, fit=shortened(fit, gone), rounds=rounds, dropped=dropped)

    def result(self) -> tuple[IntArray, FloatArray, tuple[Round, ...]]:
        """Return the cells, so that any first few are a good basis, theta for all of them, and the way."""
        stage, best = self.stage, self.stage.best
        if not stage.swaps:
            return best.cells, best.theta, stage.rounds
        cells = np.concatenate([self.search.start, *(gone[::-1] for gone in reversed(stage.dropped))])
        place = {cell: i for i, cell in enumerate(map(tuple, best.cells.tolist()))}
        theta = best.theta[[place[cell] for cell in map(tuple, cells.tolist())]]
        return cells, theta, tuple(reversed(stage.rounds))

    def pack(self) -> dict[str, Any]:
        """List the arrays from which growing goes on."""
        stage = self.stage
        best = {} if stage.best is stage.fit else stage.best.pack("best_")
        return {
            "phase": stage.phase,
            **stage.fit.pack(),
            **best,
            "rounds": pack_rounds(stage.rounds),
            "swaps": stage.swaps,
            **{f"dropped{i}": cells for i, cells in enumerate(stage.dropped)},
        }

    @classmethod
    def unpack(cls, search: Search, swaps: int, arrays: Mapping[str, Any]) -> Growing:
        """Go on from what `pack` listed."""
        fit = unpack_state(search.ground, arrays)
        best = unpack_state(search.ground, arrays, "best_") if "best_cells" in arrays else fit
        dropped = tuple(arrays[f"dropped{i}"] for i in range(sum(name.startswith("dropped") for name in arrays)))
        phase: Any = str(arrays["phase"])
        stage = Stage(phase, fit, best, unpack_rounds(arrays["rounds"]), int(arrays["swaps"]), dropped)
        return cls(search, swaps, stage)
