"""The picture of how modes hang together: modes as circles, joint effects as lines between them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from legendre.core.errors import InvalidQuery, InvalidSetting
from legendre.core.figures import BLUE, GREY, LIGHT, ORANGE, SMALL, axes_for
from legendre.core.labels import Labels
from legendre.core.text_table import shortened
from legendre.core.types import FloatArray
from legendre.results.effects import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from legendre.results.decomposition import Decomposition

By = Literal["share", "kl"]
FEW_EDGES = 15  # lines up to which each has its number beside it
FEW_MODES = 30  # modes up to which names are written in circles of full size
QUICK_MODES = 120  # coupled modes up to which all distances are laid out, which takes a second
WIDEST = 9.0  # points of the thickest line
LONGEST = 14  # letters of a mode's name
NUMBER = (0.5, 0.2)  # width and height of a number on a line; four modes lie on a circle of radius 1

Edges = dict[tuple[int, int], float]
Place = tuple[float, float]


def draw(fit: Decomposition, ax: Axes | None, by: By, measure: Measure) -> Axes:
    """Draw modes and their joint effects, the stronger the thicker."""
    if by not in ("share", "kl"):
        raise InvalidQuery(f'plot.graph: by={by!r}; it is "share" or "kl".')
    if find_spec("networkx") is None:
        raise InvalidSetting("plot.graph needs networkx. Install it with: pip install 'legendre[plot]'")
    effects = fit.effects(measure=measure, max_order=2)
    edges: Edges = {(e.modes[0], e.modes[1]): e.share for e in effects if len(e.modes) == 2}
    if by == "kl":
        edges = {pair: effects.kl_lost(pair) for pair in edges}
    alone = {e.modes[0]: e.share for e in effects if len(e.modes) == 1}
    order = len(fit.shape)
    ax = axes_for("plot.graph", ax, (11.0, 9.0) if order > FEW_MODES else (7.0, 5.4))
    places = _places(order, edges)
    _draw_edges(ax, places, edges, by)
    _draw_modes(ax, places, fit.labels, alone)
    ax.set_axis_off()
    ax.margins(0.15)
    told = "shares of the variance of log Q" if by == "share" else "lines: KL(P, Q) lost without the pair, in nats"
    ax.set_title(f"Modes and their joint effects\n{told}" if edges else "Modes; no two have a joint effect")
    return ax


def _draw_modes(ax: Axes, places: dict[int, Any], labels: Labels, alone: dict[int, float]) -> None:
    """Draw each mode as a bubble with its name and, of few modes, the share of its own effect."""
    many = len(places) > FEW_MODES
    x, y = np.array([*places.values()]).T
    ax.scatter(x, y, s=1)  # so that the axes reach as far as the modes do
    for k, place in places.items():
        name = shortened(str(k) if many and labels.names is None else labels.mode(k), LONGEST)
        text = name if many else f"{name}\n{100 * alone.get(k, 0.0):.1f} %"
        box = {"boxstyle": f"round,pad={0.2 if many else 0.5}", "facecolor": LIGHT, "edgecolor": GREY}
        ax.annotate(text, place, ha="center", va="center", fontsize=7 if many else SMALL, bbox=box, zorder=4)


def _draw_edges(ax: Axes, places: dict[int, Any], edges: Edges, by: By) -> None:
    largest = max(edges.values(), default=0.0) or 1.0
    placed: list[Place] = []
    for (i, j), weight in sorted(edges.items(), key=lambda edge: edge[1]):
        share = max(weight / largest, 0.0)
        line = np.array([places[i], places[j]])
        ax.plot(*line.T, color=BLUE, linewidth=0.6 + WIDEST * share, alpha=0.35 + 0.5 * share, solid_capstyle="round")
        if len(edges) <= FEW_EDGES:
            text = f"{100 * weight:.1f} %" if by == "share" else f"{weight:.2g}"
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
            others = [np.array([places[a], places[b]]) for a, b in edges if not {a, b} & {i, j}]
            placed.append(_free_place(line, placed, _crossings(line, others)))
            ax.annotate(text, placed[-1], ha="center", va="center", fontsize=SMALL, color=ORANGE, bbox=box, zorder=3)


def _free_place(line: FloatArray, taken: list[Place], crossings: list[Place]) -> Place:
    """Return the place on a line for its number: the middle, unless another number is there or a line crosses there.

    A number on a crossing could be that of either line.
    """
    along = [line[0] + part * (line[1] - line[0]) for part in (0.5, 0.36, 0.64, 0.28, 0.72)]
    near = [(other, 1.0) for other in taken] + [(other, 0.5) for other in crossings]
    room = [
        min((float((np.abs(place - other) / NUMBER).max()) / least for other, least in near), default=np.inf)
        for place in along
    ]
    x, y = along[next((k for k, free in enumerate(room) if free >= 1), int(np.argmax(room)))]
    return float(x), float(y)


def _crossings(line: FloatArray, others: list[FloatArray]) -> list[Place]:
    """List where other lines cross a line.

    >>> others = [np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[3.0, 0.0], [4.0, 0.0]])]
    >>> _crossings(np.array([[0.0, 0.0], [2.0, 2.0]]), others)
    [(1.0, 1.0)]
    """
    found, along = [], line[1] - line[0]
    for other in others:
        across, apart = other[1] - other[0], other[0] - line[0]
        turn = along[0] * across[1] - along[1] * across[0]
        if turn == 0:  # parallel
            continue
        here = (apart[0] * across[1] - apart[1] * across[0]) / turn
        there = (apart[0] * along[1] - apart[1] * along[0]) / turn
        if 0 < here < 1 and 0 < there < 1:
            x, y = line[0] + here * along
            found.append((float(x), float(y)))
    return found


def _places(order: int, edges: Edges) -> dict[int, Any]:
    """Lay the modes out: coupled ones near each other, and groups of them that nothing couples side by side."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(order))
    graph.add_edges_from(edges)
    groups = sorted(networkx.connected_components(graph), key=lambda group: (-len(group), min(group)))
    sides = [len(group) ** 0.5 + 0.5 for group in groups]
    width = max(max(sides), sum(side * side for side in sides) ** 0.5)
    places, x, y, shelf = dict[int, Any](), 0.0, 0.0, 0.0
    for group, side in zip(groups, sides, strict=True):
        if x and x + side > 1.01 * width:
            x, y, shelf = 0.0, y - shelf, 0.0
        shelf = max(shelf, side)
        middle = np.array([x + side / 2, y - side / 2])
        places |= {k: middle + (side - 0.5) / 2 * place for k, place in _group_places(graph.subgraph(group)).items()}
        x += side
    return {k: places[k] for k in range(order)}


def _group_places(graph: Any) -> dict[int, Any]:
    """Lay one group out between -1 and 1: few modes on a circle where most are coupled, others by their distances."""
    import networkx

    n, edges = graph.number_of_nodes(), graph.number_of_edges()
    degrees = dict(graph.degree)
    if n > 3 and max(degrees.values()) <= 2:  # a chain or a ring, along a circle
        turns = 2 * np.pi * np.arange(n) / (n + 1)
        along = networkx.dfs_preorder_nodes(graph, min(degrees, key=lambda k: (degrees[k], k)))
        return dict(zip(along, np.stack([-np.cos(turns), np.sin(turns)], axis=1), strict=True))
    if n <= FEW_MODES and 4 * edges >= n * (n - 1):
        return dict(networkx.circular_layout(graph))
    if n <= QUICK_MODES:
        return dict(networkx.kamada_kawai_layout(graph))
    return dict(networkx.spring_layout(graph, pos=networkx.spectral_layout(graph), seed=0, iterations=200))
