"""Tensors in text files: FROSTT's .tns."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence

import numpy as np

from legendre.core.errors import InvalidFile
from legendre.core.files import PathName, check_path
from legendre.data.sparse_tensor import SparseTensor, assemble

FORM = "Every line lists the indices of a cell and its value, separated by blanks."


def read_tns(path: PathName, shape: Sequence[int] | None = None) -> SparseTensor:
    r"""Read a tensor from a text file, which may be compressed (.gz).

    Each line lists the indices of a cell and its value, separated by blanks, as in the files of FROSTT; ``#`` begins a
    comment. Indices count from 1, and there is no header. For files of the Tensor Toolbox use ``pyttb.import_data``:
    what it returns is an X.

    Parameters
    ----------
    path
        The file.
    shape
        The grid; ``None`` is the smallest that holds the cells.

    Returns
    -------
    SparseTensor
        Indices count from 0; values of a cell that is listed twice are added.

    Raises
    ------
    InvalidFile
        The message names the entry and says what is wrong with it.

    See Also
    --------
    decompose : Takes what this returns, with ``names=`` and ``levels=`` for its modes.
    from_coords : A sparse tensor from cells and values.
    SparseTensor : What these readers return.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "small.tns"
    >>> _ = file.write_text("# i j k value\n1 1 2 5\n3 1 1 0.5\n")
    >>> x = read_tns(file)
    >>> x
    SparseTensor: 2 entries > 0 of 6 cells (3 x 1 x 2), float64
    >>> x.cells.tolist(), x.values.tolist()
    ([[0, 0, 1], [2, 0, 0]], [5.0, 0.5])
    """
    path = check_path(path, "X.tns")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there are no data: an error below says so
            table = np.loadtxt(path, ndmin=2, encoding="utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        said = str(getattr(problem, "strerror", None) or problem).rstrip(".")
        raise InvalidFile(f"cannot read {path}: {said}.") from None
    except ValueError as problem:
        said = str(problem).partition(";")[0].rstrip(".")
        raise InvalidFile(f"{path}: {said}. {FORM} Leave a header out, and pass its sizes as shape.") from None
    if table.shape[1] < 2:
        raise InvalidFile(f"{path} holds no entry. {FORM}")
    name = f"{path}, whose indices count from 1; counted from 0, "
    return assemble(list(table[:, :-1].T - 1), table[:, -1], shape, InvalidFile, name, f"{path}: values")
