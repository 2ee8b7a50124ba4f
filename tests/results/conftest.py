"""Fits with labels of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import legendre as ld
from legendre.core.labels import Labels


@pytest.fixture
def label(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call the modes and levels of every fit in this test as told."""

    def give(shape: tuple[int, ...], names: Sequence[str] | None, levels: Any = None) -> None:
        labels = Labels.read(shape, names, levels)
        monkeypatch.setattr(ld.Decomposition, "labels", property(lambda _: labels))

    return give
