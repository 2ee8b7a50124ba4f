"""Damaged files: bytes and arrays of saved results, checkpoints, sparse archives and .tns.gz files are changed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..draw import pick
from ..rules import Trial, Wrong
from . import Args, Target


@cache
def damage() -> Any:
    """Import the module that changes files."""
    return import_module(f"{__package__.rpartition('.')[0]}.damage")


@cache
def kinds() -> list[Any]:
    """Make a small file of every kind, once in a process."""
    return list(damage().kinds())


def draw_damage(rng: np.random.Generator) -> Args:
    return {
        "kind": int(rng.integers(1 << 30)),
        "way": pick(rng, "bytes", "bytes", "arrays", "forged"),
        "seed": int(rng.integers(1 << 30)),
    }


def try_damage(args: Args, folder: Path) -> Trial:
    every, rng = kinds(), np.random.default_rng(args["seed"])
    kind, way = every[args["kind"] % len(every)], args["way"]
    if way == "bytes" or kind.ending == ".tns.gz":
        content, what, unchecked = damage().damaged_bytes(kind.content, rng), "bytes", False
    else:
        whole = damage().unpacked(kind.content)
        what, arrays = damage().damaged_arrays(whole, rng)
        unchecked = way == "forged" or "checksum" not in whole
        content = damage().packed(damage().forged(arrays) if unchecked and "checksum" in whole else arrays)

    def check(found: tuple[str, str]) -> str:
        if found[0] in ("wrong", "raw"):
            raise Wrong(f"{kind.name}, {what}, {way}: {found[0]}: {found[1]}")
        return "refused" if found[0] == "refused" else "right"

    return Trial(lambda: damage().verdict(kind, content, folder, data=unchecked), check, twice=False)


TARGETS = [Target("damage", draw_damage, try_damage, 0.06)]
