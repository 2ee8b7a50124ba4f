"""Images that other packages bring along."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSetting
from legendre.data.readers.tables import from_rows
from legendre.data.sparse_tensor import SparseTensor

FEWEST = 174  # images of the digit that scikit-learn has fewest of, 8


def digits(per_digit: int = 4) -> SparseTensor:
    """Handwritten digits, 8 x 8 pixels of 0 (white) to 16: the first images of each digit, 0 first.

    Parameters
    ----------
    per_digit
        How many images of each digit, 1 to 174.

    Returns
    -------
    SparseTensor
        Row x column x image; images are called ``"0-1"``, ``"0-2"``, ...: the digit, and which of its images.

    See Also
    --------
    legendre.datasets.flights : Flights that left New York.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: `sklearn.datasets.load_digits` of scikit-learn, which must be installed (``pip install scikit-learn``): the
    test set of *Optical Recognition of Handwritten Digits*, Alpaydin and Kaynak (1998), UCI Machine Learning
    Repository. Licence: nothing of it is in this package; see scikit-learn (BSD) and the repository's page, which asks
    to cite them.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.digits()
    >>> X.names, X.shape, X.levels[2][:5].tolist()
    (('row', 'column', 'image'), (8, 8, 40), ['0-1', '0-2', '0-3', '0-4', '1-1'])
    """
    if not is_whole(per_digit, 1) or per_digit > FEWEST:
        raise InvalidSetting(f"digits: per_digit must be an integer from 1 to {FEWEST}, got {per_digit!r}.")
    if find_spec("sklearn") is None:
        raise InvalidSetting("datasets.digits needs scikit-learn, which has the images: pip install scikit-learn")
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = np.concatenate([np.flatnonzero(data.target == digit)[:per_digit] for digit in range(10)])
    images = np.moveaxis(data.images[chosen], 0, -1).astype(np.int64)
    names = [f"{digit}-{k + 1}" for digit in range(10) for k in range(per_digit)]
    row, column, image = np.indices(images.shape).reshape(3, -1)
    table = {"row": row, "column": column, "image": np.array(names)[image], "ink": images.ravel()}
    return from_rows(table, ["row", "column", "image"], "ink", {"row": 8, "column": 8, "image": names})
