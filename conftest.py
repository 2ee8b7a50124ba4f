"""For every test and example, in the source and in the documentation too."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

collect_ignore = ["docs/conf.py"]  # Sphinx's settings are no module with examples


def pytest_collection_finish() -> None:
    """Tell the garbage collector to leave out what was imported: it stays until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _figures_closed() -> Iterator[None]:
    """Close what was drawn: matplotlib keeps figures open, and warns of many."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
