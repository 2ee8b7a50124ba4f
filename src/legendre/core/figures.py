"""Where pictures are drawn: the caller's axes, or those of a new figure. matplotlib is imported here, when needed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from legendre.core.errors import InvalidSetting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(name: str, size: tuple[float, float] | None = None) -> Figure:
    """Make a figure for the function `name`, of some inches or of matplotlib's own size."""
    if find_spec("matplotlib") is None:
        raise InvalidSetting(f"{name} needs matplotlib. Install it with: pip install 'legendre[plot]'")
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained")


def axes_for(name: str, ax: Axes | None, **settings: str) -> Axes:
    """Return the caller's axes, checked, or those of a new figure."""
    if ax is not None and not hasattr(ax, "annotate"):
        raise InvalidSetting(f"{name}: ax must be axes such as figure.add_subplot(), got {type(ax).__name__}.")
    return new_figure(name).add_subplot(**settings) if ax is None else ax
