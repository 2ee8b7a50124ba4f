"""The graph of modes: modes as boxes, joint effects as lines between them."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from legendre.core.arguments import check_choice
from legendre.core.errors import InvalidQuery, InvalidSetting
from legendre.core.figures import BLUE, GREY, LIGHT, ORANGE, SMALL, axes_for
from legendre.core.text import shortened
from legendre.results.effects import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from legendre.results.decomposition import Decomposition

By = Literal["share", "kl"]
Edges = dict[tuple[int, int], float]


def draw_graph(fit: Decomposition, ax: Axes | None, by: By, measure: Measure) -> Axes:
    """Draw modes and their joint effects, the stronger the thicker."""
    check_choice(by, "plot.graph: by", ("share", "kl"), InvalidQuery)
    if find_spec("networkx") is None:
        raise InvalidSetting("plot.graph needs networkx. Install it with: pip install 'legendre[plot]'")
    effects = fit.effects(measure=measure, max_order=2)
    edges: Edges = {(e.modes[0], e.modes[1]): e.share for e in effects if len(e.modes) == 2}
    if by == "kl":
        edges = {pair: effects.kl_lost(pair) for pair in edges}
    alone = {e.modes[0]: e.share for e in effects if len(e.modes) == 1}
    labels, many = fit.labels, len(fit.shape) > 30
    ax = axes_for("plot.graph", ax, (11.0, 9.0) if many else (7.0, 5.4))
    places = _lay_out(len(fit.shape), edges)
    _draw_edges(ax, places, edges, by)
    x, y = np.array([*places.values()]).T
    ax.scatter(x, y, s=1)  # so that the axes reach as far as the modes do
    for k, place in places.items():
        name = shortened(str(k) if many and labels.names is None else labels.mode(k), 14)
        text = name if many else f"{name}\n{100 * alone.get(k, 0.0):.1f} %"
        box = {"boxstyle": f"round,pad={0.2 if many else 0.5}", "facecolor": LIGHT, "edgecolor": GREY}
        ax.annotate(text, place, ha="center", va="center", fontsize=7 if many else SMALL, bbox=box, zorder=4)
    ax.set_axis_off()
    ax.margins(0.15)
    unit = "shares of the variance of log Q" if by == "share" else "lines: KL(P, Q) lost without the pair, in nats"
    ax.set_title(f"Modes and their joint effects\n{unit}" if edges else "Modes; no two have a joint effect")
    return ax


def _draw_edges(ax: Axes, places: dict[int, Any], edges: Edges, by: By) -> None:
    """Draw the lines, the strongest up to 9 points thick; up to 15 of them have their numbers."""
    largest = max(edges.values(), default=0.0) or 1.0
    part = 0.5 if len(places) < 4 else 0.29  # of a line, where its number stands: lines cross in the middle
    for (i, j), weight in sorted(edges.items(), key=lambda edge: edge[1]):
        share = max(weight / largest, 0.0)
        line = np.array([places[i], places[j]])
        ax.plot(*line.T, color=BLUE, linewidth=0.6 + 9 * share, alpha=0.35 + 0.5 * share, solid_capstyle="round")
        if len(edges) <= 15:
            text = f"{100 * weight:.1f} %" if by == "share" else f"{weight:.2g}"
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
            x, y = (line[0] + part * (line[1] - line[0])).tolist()
            ax.annotate(text, (x, y), ha="center", va="center", fontsize=SMALL, color=ORANGE, bbox=box, zorder=3)


def _lay_out(order: int, edges: Edges) -> dict[int, Any]:
    """Lay few modes, and chains, out on a circle, coupled ones beside each other; others by springs between them."""
    import networkx

    degrees = Counter(k for pair in edges for k in pair)
    graph = networkx.Graph()
    graph.add_nodes_from(sorted(range(order), key=lambda k: degrees[k]))  # a chain begins at an end
    graph.add_edges_from(edges)
    if order <= 30 or max(degrees.values(), default=0) <= 2:
        places = networkx.circular_layout(list(networkx.dfs_preorder_nodes(graph)))
    else:
        places = networkx.spring_layout(graph, seed=0, iterations=200)
    return {k: places[k] for k in range(order)}
