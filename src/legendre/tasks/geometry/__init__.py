"""The information geometry made visible: geodesics, Pythagoras, and pictures of them and of nested models.

Both projections are `decompose`: the m-projection of P onto the model is ``decompose(P, basis)``, and the e-projection
of R onto the tensors that share P's eta on B is ``decompose(P, basis, base=R)``.
"""

from legendre.tasks.geometry.plots import plot_ladder, plot_simplex, plot_triangle
from legendre.tasks.geometry.triangle import Triangle, e_geodesic, m_geodesic, pythagoras

__all__ = [
    "Triangle",
    "e_geodesic",
    "m_geodesic",
    "plot_ladder",
    "plot_simplex",
    "plot_triangle",
    "pythagoras",
]
