"""The information geometry made visible: geodesics, Pythagoras, the ladder of nested models, and their pictures.

Both projections are `decompose`: the m-projection of P onto the model is ``decompose(P, basis)``, and the e-projection
of R onto the tensors that share P's eta on B is ``decompose(P, basis, base=R)``.
"""

from legendre.tasks.geometry.geodesics import e_geodesic as e_geodesic
from legendre.tasks.geometry.geodesics import m_geodesic as m_geodesic
from legendre.tasks.geometry.kl_ladder import Ladder as Ladder
from legendre.tasks.geometry.kl_ladder import Rung as Rung
from legendre.tasks.geometry.kl_ladder import ladder as ladder
from legendre.tasks.geometry.plots import plot_ladder as plot_ladder
from legendre.tasks.geometry.plots import plot_simplex as plot_simplex
from legendre.tasks.geometry.plots import plot_triangle as plot_triangle
from legendre.tasks.geometry.triangle import Triangle as Triangle
from legendre.tasks.geometry.triangle import pythagoras as pythagoras
