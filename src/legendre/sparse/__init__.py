"""Sparse tensors: from lists, tables, text files and other libraries' arrays to one checked list of cells."""

from legendre.sparse.batches import from_batches as from_batches
from legendre.sparse.convert import as_coordinates as as_coordinates
from legendre.sparse.core import Coordinates as Coordinates
from legendre.sparse.lists import from_coords as from_coords
from legendre.sparse.rows import from_rows as from_rows
from legendre.sparse.text import read_tns as read_tns
