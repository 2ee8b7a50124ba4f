"""Small real tensors and tables, with the names of their modes and levels.

Each function returns a `SparseTensor`: `names`, `levels` and, written out as an array, ``toarray()``.
"""

from __future__ import annotations

from legendre.data.datasets.air_traffic import flights
from legendre.data.datasets.contingency import car_workers, drug_use, hair_eye_color, social_mobility, titanic
from legendre.data.datasets.images import digits

__all__ = ["car_workers", "digits", "drug_use", "flights", "hair_eye_color", "social_mobility", "titanic"]
