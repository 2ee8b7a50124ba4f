"""The targets: for each a generator of arguments, and how a call with them is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..rules import Trial

Args = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A part of the library that is called."""

    name: str
    draw: Callable[[np.random.Generator], Args]
    trial: Callable[[Args, Path], Trial]
    share: float  # of all cases


def all_targets() -> dict[str, Target]:
    """List the targets by name."""
    from . import cliques, fits, lacking, readers, tasks, tied

    parts = (fits, tied, cliques, tasks, lacking, readers)
    return {target.name: target for part in parts for target in part.TARGETS}
