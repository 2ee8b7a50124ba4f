"""What pictures share: axes, colours, font sizes, and ticks named after levels.

matplotlib is imported inside functions, because it is optional and slow to load.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from os.path import commonprefix
from textwrap import fill
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from legendre.core.arguments import check_installed
from legendre.core.errors import InvalidSetting
from legendre.core.labels import Labels, level_text
from legendre.core.types import AnyArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")
BLUE, ORANGE, GREY, LIGHT = "#0072b2", "#d55e00", "0.45", "0.82"  # Okabe and Ito's palette, for colour-blind readers
DIVERGING = "PuOr_r"  # orange for more, purple for less, white in the middle, as on the report page
RISING = "cividis"  # from dark to light, the same for colour-blind readers
SMALL, MEDIUM, LARGE = 11, 12, 13  # font sizes in points: ticks and notes, names of axes, titles


def new_figure(caller: str, size: tuple[float, float]) -> Figure:
    """Make a figure of this size in inches, which pyplot and notebooks show; return it without axes.

    `caller` is the public method that draws; the error names it if matplotlib is not installed.
    """
    check_installed(caller, ["matplotlib"], "'legendre[plot]'")
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained")


def draw_literally(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that draws, so that a $ in a name of the user's is shown and does not begin a TeX formula.

    matplotlib's own formulas, such as powers of ten at ticks, stay formulas, because matplotlib writes them later.
    """

    @wraps(draw)
    def drawn(*args: P.args, **named: P.kwargs) -> T:
        """Draw, then tell each text with a $ that it is no formula; return what was drawn."""
        found: Any = draw(*args, **named)
        _take_literally(found.figure)
        return found  # type: ignore[no-any-return]  # axes or a figure

    return drawn


def _take_literally(figure: Figure) -> None:
    """Tell each text with a $ that it is no formula."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text) and "$" in text.get_text():
            text.set_parse_math(False)


def axes_for(caller: str, ax: Axes | None, size: tuple[float, float] = (7.0, 4.8)) -> Axes:
    """Return the axes that the user passed as ``ax=``, checked; by default those of a new figure of `size`.

    Pictures with one panel begin with it. `caller` is the public method that draws; errors name it.
    """
    if ax is None:
        return style_axes(new_figure(caller, size).add_subplot())
    if not hasattr(ax, "annotate"):  # which axes have, and figures and arrays of axes do not
        raise InvalidSetting(f"{caller}: ax must be axes such as figure.add_subplot(), got {type(ax).__name__}.")
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")  # so that nothing around the axes is cut off
    return ax


def make_panels(caller: str, n: int, across: int, size: tuple[float, float] = (4.6, 3.6)) -> tuple[Figure, list[Axes]]:
    """Make a figure with n panels of `size` inches each, `across` of them in a row; return it and its axes.

    Pictures with several panels begin with it. `caller` is the public method that draws; errors name it.
    """
    across = min(across, n)
    down = math.ceil(n / across)
    figure = new_figure(caller, (size[0] * across, size[1] * down))
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.12, h_pad=0.1)  # inches between panels: by default titles and ticks nearly touch
    return figure, [style_axes(figure.add_subplot(down, across, place + 1)) for place in range(n)]


def style_axes(ax: Axes) -> Axes:
    """Set font sizes that can be read from a distance, and remove the frame at the top and on the right.

    Return the axes, so that new ones can be styled where they are made.
    """
    ax.tick_params(labelsize=SMALL)
    ax.xaxis.label.set_fontsize(MEDIUM)
    ax.yaxis.label.set_fontsize(MEDIUM)
    ax.title.set_fontsize(LARGE)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def add_colour_bar(axes: Sequence[Axes], image: Any, name: str = "", **properties: Any) -> Any:
    """Put one colour bar next to panels that share its scale, and return it.

    `image` is what matplotlib drew with that scale, and `properties` are further arguments of its `colorbar`.
    """
    bar = axes[0].figure.colorbar(image, ax=axes, **properties)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    bar.set_label(name, size=MEDIUM)
    return bar


def add_factor_bar(ax: Axes, image: Any, span: float, name: str = "") -> None:
    """Put a colour bar of factors next to an image of their logarithms, which has colours from -span to span."""
    bar = add_colour_bar([ax], image, name, ticks=[-span, 0, span], extend="both")
    bar.ax.set_yticklabels([f"× {format_number(math.exp(v))}" for v in (-span, 0, span)])


def format_number(value: float, _: object = None) -> str:
    """Write a number to three digits, or as an integer with commas from 1,000 to 10 million.

    matplotlib can call it as a formatter of ticks, with a second argument that is not used.

    >>> [format_number(v) for v in (0.001, 2.0, 1500000.0, 1e-12)]
    ['0.001', '2', '1,500,000', '1e-12']
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def set_integer_ticks(ax: Axes) -> None:
    """Put ticks of the x-axis at integers only: half a step or half a parameter means nothing."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def set_factor_ticks(ax: Axes, axis: str = "y") -> None:
    """Make an axis, "x" or "y", logarithmic, with ticks that are plain numbers, as suits factors such as odds ratios.

    An axis whose ends differ by less than a factor of 5 stays linear. Call it when all data are drawn.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    along = ax.xaxis if axis == "x" else ax.yaxis
    ax.set(**{f"{axis}scale": "log"})
    low, high = along.get_view_interval()
    decades = math.log10(high / low)
    if decades < 0.7:  # log10 of 5: fewer than three of the ticks 1, 2, 5, 10 would be seen
        ax.set(**{f"{axis}scale": "linear"})
        return
    # ticks at 1, 2, 5, 10, ..., or at powers of ten only where that would be more than ten ticks
    along.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades <= 3 else (1.0,)))
    along.set_major_formatter(format_number)
    along.set_minor_formatter(NullFormatter())


def level_ticks(ax: Axes, axis: str, labels: Labels, k: int) -> None:
    """Name an axis, "x" or "y", after mode k, and its ticks after levels: all if they have room, else every n-th.

    Level i is drawn at coordinate i. How long a name is on paper is estimated, because matplotlib knows it only after
    the figure has been drawn. Names on the x-axis that have no room side by side are turned by 90 degrees. If levels
    have an order, a few names are enough to tell the others, and they are turned only if not even three have room.
    """
    # inches: the average width of a letter is 0.6 of the font size, a line takes 1.15 of it, and a point is 1/72;
    # `most_ticks` holds where not all levels have room
    letter_width, line_height, most_ticks = SMALL * 0.6 / 72, SMALL * 1.15 / 72, 8
    n = labels.shape[k]
    ax.apply_aspect()  # if cells are drawn as squares, the axes are smaller than asked for
    inches = (ax.bbox.width if axis == "x" else ax.bbox.height) / ax.figure.dpi
    # of more than 2,000 levels those at multiples of 250, 2,500, ...: to write all of them would take long
    shown = np.arange(0, n, 1 if n <= 2_000 else 10 ** (len(str(n)) - 1) // 4)
    texts, shared_start = write_ticks(labels.levels_of(k)[shown])
    name_width = letter_width * max(map(len, texts)) + 0.12  # the widest name and the space next to it
    turned = axis == "x" and n * name_width > inches and (inches < 3 * name_width or not labels.is_ordered(k))
    n_fitting = max(int(inches / (name_width if axis == "x" and not turned else line_height)), 2)
    kept = choose_ticks(texts, n if n <= n_fitting else min(most_ticks, n_fitting))
    along = ax.xaxis if axis == "x" else ax.yaxis
    along.set_ticks(shown[kept].tolist(), [texts[i] for i in kept])
    name = (labels.mode(k) if labels.names is not None else f"level of {labels.mode(k)}") + shared_start
    # an axis may be as narrow as a map of two levels, with room around it
    along.set_label_text(fill(name, max(int(inches / letter_width), 20)))
    if turned:
        ax.tick_params(axis="x", labelrotation=90)


def make_room(figure: Figure, axes: Sequence[Axes]) -> None:
    """Make a figure with rows of panels higher if names around the panels leave too little room for their own ticks.

    Long names that are turned take most of the height of a panel; matplotlib knows how much when it has laid them out.
    """
    _take_literally(figure)
    figure.draw_without_rendering()
    high, line_height = figure.get_figheight(), SMALL * 1.15 / 72
    lacking = [
        line_height * max(len(ax.get_yticks()), 12) - high * ax.get_position(original=True).height for ax in axes
    ]
    if max(lacking) > 0:
        rows = len({round(ax.get_position(original=True).y0, 3) for ax in axes})
        figure.set_figheight(high + rows * max(lacking))
        figure.draw_without_rendering()  # with cells drawn as squares, one pass does not lay them out


def write_ticks(levels: AnyArray) -> tuple[list[str], str]:
    """Write each level in at most 14 letters, more if two would be the same, without the beginning that all share.

    Also return that beginning in the form in which it is added to the name of the axis; empty if there is none.

    >>> write_ticks(np.arange("2019-01-01", "2019-01-04", dtype="datetime64[D]"))
    (['01', '02', '03'], ' (2019-01-…)')
    >>> write_ticks(np.array(["South", "North America and one", "North Atlantic and one"]))
    (['South', 'North America and one', 'North Atlantic and one'], '')
    """
    if levels.dtype.kind == "M":
        # dates (units of years, months, weeks, days) are written in their unit; times to the last unit that is not 0
        are_dates = np.datetime_data(levels.dtype)[0] in "YMWD"
        shown = levels.astype(str) if are_dates else np.datetime_as_string(levels, unit="auto")
        texts = [text.replace("T", " ") for text in shown.tolist()]
    else:
        texts = [f"{label:.4g}" if levels.dtype.kind == "f" else level_text(label) for label in levels]
        if len(set(texts)) < len(texts):
            texts = [level_text(label) for label in levels]
    # the shared beginning ends at a separator, not inside a word; up to three letters are not worth leaving out
    start = re.sub(r"[^-_ /]*$", "", commonprefix(texts))  # noqa: RUF071 - letters, not paths
    start = start if len(start) > 3 else ""
    # 08:30:00 becomes 08:30
    texts = [text[len(start) :].removesuffix(":00" if text.count(":") == 2 else "") for text in texts]
    for most in (14, 28, 10_000):
        short = [text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}" for text in texts]
        if len(set(short)) == len(texts):
            break
    return short, f" ({start}…)" if start else ""


def choose_ticks(texts: list[str], most: int) -> list[int]:
    """Choose every n-th level, at most `most` of them, so that the largest share of them is round; return their places.

    Full hours are round, of other labels those that end with 0. Steps up to twice the smallest possible are tried, each
    from the first level and from the first round one.

    >>> clock = [f"{6 + i // 6:02}:{i % 6}0" for i in range(108)]
    >>> [clock[i] for i in choose_ticks(clock, 8)]
    ['06:00', '09:00', '12:00', '15:00', '18:00', '21:00']
    >>> [i + 1 for i in choose_ticks([str(i + 1) for i in range(80)], 8)]
    [10, 20, 30, 40, 50, 60, 70, 80]
    """
    smallest_step, ending = -(-len(texts) // most), ":00" if ":" in texts[0] else "0"
    if smallest_step <= 1:
        return list(range(len(texts)))
    not_round = np.array([not text.endswith(ending) for text in texts])
    first = int(not_round.argmin())  # the first round one; 0 if there is none
    choices = [(step, start) for step in range(smallest_step, 2 * smallest_step + 1) for start in (0, first % step)]
    step, start = min(choices, key=lambda choice: (float(not_round[choice[1] :: choice[0]].mean()), choice))
    return list(range(start, len(texts), step))
