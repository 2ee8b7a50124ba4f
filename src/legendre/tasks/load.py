"""Reading a result of any kind that `save` wrote."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from legendre.core.errors import InvalidFile, TooLarge
from legendre.core.files import read_arrays
from legendre.results.base import Storable
from legendre.results.file_format import Archive, Unreadable

KINDS = {
    "legendre-balanced": ("legendre.tasks.balance.balance", "Balanced"),
    "legendre-completion": ("legendre.tasks.complete.result", "Completion"),
    "legendre-cross-validation": ("legendre.tasks.complete.crossval", "CrossValidation"),
    "legendre-decomposition": ("legendre.results.decomposition", "Decomposition"),
    "legendre-hidden": ("legendre.tasks.hidden", "HiddenDecomposition"),
    "legendre-inference": ("legendre.results.inference.result", "Inference"),
    "legendre-ladder": ("legendre.tasks.geometry.kl_ladder", "Ladder"),
    "legendre-likelihood-ratio": ("legendre.results.inference.likelihood_ratio", "LikelihoodRatio"),
    "legendre-loglinear": ("legendre.tasks.loglinear.result", "LogLinear"),
    "legendre-partial-loglinear": ("legendre.tasks.loglinear.partial", "PartialLogLinear"),
    "legendre-smoothed": ("legendre.tasks.smooth.result", "Smoothed"),
}
"""By the format that a file names: the module and the class of what it holds. Modules are imported when needed."""

OTHER_KIND = "A saved result is an .npz file, written by its save, or from data by `legendre fit`."


def load(path: str | os.PathLike[str]) -> Any:
    """Read a result from the file that its `save` wrote: the same type, and the same numbers to the last bit.

    X is not in the file, so compute what needs it (`inference`, `at`) before saving. The file is checked: arrays are
    compared with each other and with the length of the file, and the model is evaluated at theta. A status of converged
    is therefore true, or the file is refused with an `InvalidFile`. (Where the evaluation would take seconds, from
    ``limits.LARGEST_CHECK`` additions on, the stored eta is compared with tol instead.)

    Parameters
    ----------
    path
        The name of an npz file.

    Returns
    -------
    Decomposition, Balanced, Completion, Smoothed, HiddenDecomposition, Inference, Ladder, ...
        Whatever was saved.

    See Also
    --------
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import legendre as ld, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "fit.npz"
    ...     ld.decompose([[1, 2], [3, 4]], "B1").save(path)
    ...     ld.load(path).status.name
    'CONVERGED'
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidFile(f"load takes the name of a file, got {path!r}.")
    arrays = read_arrays(path, "a saved result", OTHER_KIND)
    kind = str(arrays.get("format"))
    if kind not in KINDS:
        names = ", ".join(sorted(arrays)[:5]) or "nothing"
        raise InvalidFile(f"cannot read {path}: not a saved result (it holds {names}).")
    archive = Archive(arrays, f"a saved {kind.removeprefix('legendre-').replace('-', ' ')}", read=_read)
    try:
        archive.check_whole()
        result = _read(archive)
        archive.check_content()
    except Unreadable as problem:
        raise InvalidFile(f"cannot read {path}: {problem}") from None
    except MemoryError as problem:
        raise TooLarge(f"cannot read {path}: {archive.what}, which does not fit in memory ({problem}).") from None
    except (KeyError, ValueError, IndexError, TypeError, ArithmeticError, AttributeError) as problem:
        raise InvalidFile(f"cannot read {path}: {archive.what}, but a damaged one ({problem}).") from None
    return result


def _read(archive: Archive) -> Storable:
    """Make the result that an archive, or a part of one, holds."""
    module, name = KINDS[archive.text("format")]
    found: type[Storable] = getattr(import_module(module), name)
    return found.from_arrays(archive)
