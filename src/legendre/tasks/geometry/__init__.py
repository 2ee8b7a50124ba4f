"""The information geometry made visible: geodesics, Pythagoras, the ladder of nested models, and their pictures.

Both projections are `decompose`: the m-projection of P onto the model is ``decompose(P, basis)``, and the e-projection
of R onto the tensors that share P's eta on B is ``decompose(P, basis, base=R)``.
"""

from legendre.tasks.geometry.kl_ladder import Ladder, Rung, ladder
from legendre.tasks.geometry.plots import plot_ladder, plot_simplex, plot_triangle
from legendre.tasks.geometry.triangle import Triangle, e_geodesic, m_geodesic, pythagoras

__all__ = [
    "Ladder",
    "Rung",
    "Triangle",
    "e_geodesic",
    "ladder",
    "m_geodesic",
    "plot_ladder",
    "plot_simplex",
    "plot_triangle",
    "pythagoras",
]
