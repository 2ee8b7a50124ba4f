"""The graph of modes: modes as boxes, joint effects as lines between them."""

from __future__ import annotations

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

By = Literal["gain", "share", "kl"]


def draw_graph(fit: Decomposition, ax: Axes | None, by: By | None, measure: Measure, most: int = 60) -> Axes:
    """Draw modes and their joint effects, the stronger the thicker; up to 15 lines have their numbers.

    Of a graph that was found with more than `most` modes, those of the strongest edges are drawn.
    """
    found = fit.graph if by is None or by == "gain" else None
    by = "share" if by is None and found is None else by or "gain"
    check_choice(by, "plot.graph: by", ("share", "kl") if fit.graph is None else ("gain", "share", "kl"), InvalidQuery)
    if find_spec("networkx") is None:
        raise InvalidSetting("plot.graph needs networkx. Install it with: pip install 'legendre[plot]'")
    import networkx

    alone: dict[int, float] = {}
    modes = list(range(len(fit.shape)))
    if found is None:
        effects = fit.effects(measure=measure, max_order=2)
        edges = {(e.modes[0], e.modes[1]): e.share for e in effects if len(e.modes) == 2}
        if by == "kl":
            edges = {pair: effects.kl_lost(pair) for pair in edges}
        alone = {e.modes[0]: e.share for e in effects if len(e.modes) == 1}
    else:
        gained = sorted(zip(found.gains.tolist(), found.ends.tolist(), strict=True), reverse=True)
        if len(modes) > most:
            modes = list(dict.fromkeys(k for _, pair in gained for k in pair))[:most]
        edges = {(a, b): gain for gain, (a, b) in gained if a in modes and b in modes}
    labels, order, many = fit.labels, len(modes), len(modes) > 30 or not alone
    ax = axes_for("plot.graph", ax, (11.0, 9.0) if many else (7.0, 5.4))
    graph = networkx.Graph()
    graph.add_nodes_from(modes)
    graph.add_edges_from(edges)
    # few modes and chains, which begin at an end, on a circle, coupled ones beside each other; others by springs
    if order <= 30 or max(degree for _, degree in graph.degree) <= 2:
        ends = sorted(graph, key=graph.degree)
        start = [k for end in ends for k in networkx.dfs_preorder_nodes(graph, end)]
        places = networkx.circular_layout(list(dict.fromkeys(start)))
    else:
        places = networkx.spring_layout(graph, seed=0, iterations=200)
    pairs = sorted(edges, key=edges.__getitem__)  # the strongest are drawn last
    strengths = np.array([edges[pair] for pair in pairs])
    strengths /= strengths.max(initial=0.0) or 1.0
    style: dict[str, Any] = {"edge_color": BLUE, "width": 0.6 + 9 * strengths, "alpha": 0.35 + 0.5 * strengths}
    networkx.draw_networkx_edges(graph, places, pairs, ax=ax, **style)
    box: dict[str, Any] = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    if len(edges) <= 15:
        texts = {pair: f"{100 * v:.1f} %" if by == "share" else f"{v:.3g}" for pair, v in edges.items()}
        style = {"font_color": ORANGE, "font_size": SMALL, "bbox": box, "rotate": False}
        part = 0.5 if order < 4 else 0.76  # of a line, where its number stands: lines cross in the middle
        networkx.draw_networkx_edge_labels(graph, places, texts, label_pos=part, ax=ax, **style)
    x, y = np.array([*places.values()]).T
    ax.scatter(x, y, s=1)  # so that the axes reach as far as the modes do
    names = {k: shortened(str(k) if many and labels.names is None else labels.mode(k), 14) for k in graph}
    texts = names if many else {k: f"{name}\n{100 * alone.get(k, 0.0):.1f} %" for k, name in names.items()}
    box = {"boxstyle": f"round,pad={0.2 if many else 0.5}", "facecolor": LIGHT, "edgecolor": GREY}
    networkx.draw_networkx_labels(graph, places, texts, font_size=7 if many else SMALL, bbox=box, ax=ax)
    ax.set_axis_off()
    ax.margins(0.15)
    unit = {
        "share": "shares of the variance of log Q",
        "kl": "lines: KL(P, Q) lost without the pair, in nats",
        "gain": f"lines: nats of log-likelihood that an edge gained; {order} of {len(fit.shape)} modes",
    }[by]
    ax.set_title(f"Modes and their joint effects\n{unit}" if edges else "Modes; no two have a joint effect")
    return ax
