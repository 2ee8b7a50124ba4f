"""Where pictures are drawn: the caller's axes, or those of a new figure. matplotlib is imported here, when needed.

Everything that pictures share is here too: colours that colour-blind readers tell apart, and sizes of letters that can
be read from the back of a room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from legendre.core.errors import InvalidSetting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY, LIGHT = "#0072b2", "#d55e00", "0.45", "0.82"  # told apart by all readers (Okabe and Ito's palette)
DIVERGING = "PuOr_r"  # orange for more, purple for less, white in the middle, as on the report page
RISING = "cividis"  # from dark to light, the same for colour-blind readers
SMALL, MEDIUM, LARGE = 11, 12, 13  # sizes of letters in points: ticks and notes, names of axes, titles
PANEL = (4.6, 3.6)  # inches of one picture among several
ALONE = (7.0, 4.8)  # inches of one picture alone


def new_figure(name: str, size: tuple[float, float] | None = None) -> Figure:
    """Make a figure for the function `name`, of some inches or of the size of a picture alone."""
    if find_spec("matplotlib") is None:
        raise InvalidSetting(f"{name} needs matplotlib. Install it with: pip install 'legendre[plot]'")
    from matplotlib import pyplot

    return pyplot.figure(figsize=ALONE if size is None else size, layout="constrained")


def sheet(width: float, height: float) -> Figure:
    """Make a figure of some inches that belongs to no window, to be written to a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def axes_for(name: str, ax: Axes | None, size: tuple[float, float] | None = None, **properties: str) -> Axes:
    """Return the caller's axes, checked, or those of a new figure."""
    if ax is None:
        return readable(new_figure(name, size).add_subplot(**properties))
    if not hasattr(ax, "annotate"):
        raise InvalidSetting(f"{name}: ax must be axes such as figure.add_subplot(), got {type(ax).__name__}.")
    return ax


def panels(name: str, n: int, across: int, size: tuple[float, float] = PANEL) -> tuple[Figure, list[Axes]]:
    """Make a figure with n pictures, `across` of them in a row."""
    across = min(across, n)
    down = math.ceil(n / across)
    figure = new_figure(name, (size[0] * across, size[1] * down))
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.12, h_pad=0.1)
    return figure, [readable(figure.add_subplot(down, across, place + 1)) for place in range(n)]


def readable(ax: Axes) -> Axes:
    """Set letters that can be read from afar, and take the frame away where there is no axis."""
    ax.tick_params(labelsize=SMALL)
    ax.xaxis.label.set_fontsize(MEDIUM)
    ax.yaxis.label.set_fontsize(MEDIUM)
    ax.title.set_fontsize(LARGE)
    if ax.name == "rectilinear":
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def heading(figure: Figure, text: str) -> None:
    """Write a line above all pictures of a figure."""
    figure.suptitle(text, fontsize=LARGE)


def colour_bar(ax: Axes | Sequence[Axes], image: Any, name: str = "", **properties: Any) -> Any:
    """Put a scale of colours beside pictures."""
    first = ax if not isinstance(ax, Sequence) else ax[0]
    bar = first.figure.colorbar(image, ax=ax, **properties)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    bar.set_label(name, size=MEDIUM)
    return bar


def room(ax: Axes, axis: str) -> float:
    """Return about how many inches an axis has."""
    width, height = ax.figure.get_figure(root=True).get_size_inches()
    place = ax.get_position()
    return float(place.width * width if axis == "x" else place.height * height)
