"""The basis B: which cells carry a parameter."""

from legendre.basis.adaptive import adaptive as adaptive
from legendre.basis.boltzmann import boltzmann as boltzmann
from legendre.basis.boltzmann import rbm as rbm
from legendre.basis.core import Basis as Basis
from legendre.basis.core import cells as cells
from legendre.basis.core import empty as empty
from legendre.basis.core import full as full
from legendre.basis.interactions import interactions as interactions
from legendre.basis.paper import B1 as B1
from legendre.basis.paper import B2 as B2
from legendre.basis.paper import B3 as B3
from legendre.basis.parse import as_basis as as_basis
