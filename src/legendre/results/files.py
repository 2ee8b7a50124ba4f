"""The file format: a result as one npz file, which is written completely or not at all, and read without pickle.

Every result is a frozen dataclass of arrays, numbers, strings, ``None``, tuples, dicts and other such dataclasses.
The file holds the arrays by name (``theta``, ``model.basis``) and, as JSON text in ``content``, everything else. In the
JSON, a dict with a key that begins with ``$`` stands for what JSON lacks: an array in the file, with its dtype and
shape (``$array``), labels of mixed types (``$labels``), a dict with any keys (``$dict``), a member of an enumeration
(``$enum``), or an object with its fields (``$class``). Tuples are lists.

A class that does not store all of its fields lists those that it stores in ``_stored``, and is made from them by its
class method ``_restore(**fields)``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from datetime import date, datetime, time
from enum import Enum
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from legendre.basis.parse import as_basis
from legendre.core.cells import freeze
from legendre.core.errors import InvalidFile, LegendreError
from legendre.core.files import numpy_file, replacing
from legendre.core.labels import as_objects, level_text
from legendre.core.types import AnyArray, PathName
from legendre.data.dask import is_dask
from legendre.results import PLACES

VERSION = 4  # versions up to 3 had other arrays
MODULES = {
    **PLACES,
    "Labels": "core.labels",
    "Origin": "core.origin",
    "Ties": "core.tied_parameters",
    "Basis": "basis.parse",  # written as text, which `as_basis` reads
    "BoltzmannMachine": "tasks.estimators",
    "LegendreDensity": "tasks.estimators",
    "Levels": "tasks.estimators",
    "Mixture": "fitting.columns",
    "Network": "fitting.columns",
    "SparseTensor": "data.sparse_tensor",
    "Support": "data.observation",
    "Tried": "fitting.columns",
    "Pattern": "data.partial_table",
    "Model": "model.model",
    "Decomposition": "results.decomposition",
    "Counts": "results.inference.counts",
    "Step": "solvers.loop",
    "Margins": "tasks.balance",
    "Score": "tasks.complete.crossval",
    "PenalisedFit": "tasks.complete.penalised",
}
"""The module of each class that a file may hold: results, and classes that occur in them."""

DATES = (datetime, date, time)
"""Types of labels that files preserve, in addition to numbers and strings."""


def save(result: Any, path: PathName) -> None:
    """Write a result, an estimator or a sparse tensor to an npz file, which `load` reads.

    If writing fails, an existing file is kept as it was.

    Parameters
    ----------
    result
        Any result, as its own method `save`; a `LegendreDensity` or a `BoltzmannMachine`, fitted or not; or a
        `SparseTensor`.
    path
        The name of an npz file.

    See Also
    --------
    load : Read the file.

    Examples
    --------
    >>> import legendre as ld, tempfile, pathlib
    >>> machine = ld.BoltzmannMachine(1).fit([[0, 1], [1, 1], [0, 1], [0, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ld.save(machine, pathlib.Path(folder) / "machine.npz")
    ...     again = ld.load(pathlib.Path(folder) / "machine.npz")
    >>> again.conditional(of=1).round(6).tolist()
    [0.25, 0.75]
    """
    arrays: dict[str, Any] = {}
    head = {"format": "legendre", "version": VERSION, "result": _encode(result, "", arrays)}
    with replacing(path) as stream:
        np.savez_compressed(stream, content=np.array(json.dumps(head)), **arrays)


def load(path: PathName) -> Any:
    """Read a result from the file that its `save` wrote: the same type, with the same numbers.

    X is not in the file of a fit, so compute what needs it (`inference`, `at`) before saving. For a decomposition, eta,
    psi and the residual are recomputed from theta, and the residual decides whether the fit has converged.

    Parameters
    ----------
    path
        The name of an npz file.

    Returns
    -------
    Decomposition, a class of `legendre.results`, an estimator or a SparseTensor
        Whatever was saved.

    See Also
    --------
    save : Write an estimator, a sparse tensor or a result.
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
    with numpy_file(path, "A saved result is an .npz file, written by its save, or by `legendre fit`.") as file:
        if isinstance(file, np.ndarray) or "content" not in file:
            names = "a single array" if isinstance(file, np.ndarray) else ", ".join(sorted(file.files)[:5]) or "nothing"
            raise InvalidFile(f"cannot read {path}: not a saved result (it holds {names}).")
        try:
            head = json.loads(str(file["content"]))
            if head["format"] != "legendre" or head["version"] != VERSION:
                raise InvalidFile(
                    f"cannot read {path}: its format is {head['format']} {head['version']}, this version of legendre "
                    f"reads {VERSION}. Update legendre if that is older; otherwise fit X again."
                )
            return _decode(head["result"], file)
        except InvalidFile:
            raise
        # what classes and their checks raise for fields that do not fit together
        except (LegendreError, IndexError, TypeError, ArithmeticError, AttributeError) as problem:
            raise InvalidFile(f"cannot read {path}: a saved result, but a damaged one ({problem}).") from None


def _encode(value: Any, name: str, arrays: dict[str, AnyArray]) -> Any:
    """Turn a value into what JSON can hold, see the head of this module; arrays are added to `arrays`.

    `name` is the path of fields that leads to the value, such as ``model.basis``. An array gets this name in the file.
    """
    if isinstance(value, Enum):
        return {"$enum": type(value).__name__, "name": value.name}
    if isinstance(value, np.generic):
        value = value.item()
    if is_dask(value):  # a mask or a base measure of a distributed X, which the file holds in full
        value = np.asarray(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":  # an npz file holds objects only as pickle: strings become an array, others JSON
            if not all(isinstance(label, str) for label in value):
                return {"$labels": [_encode_label(label) for label in value]}
            value = np.array(value, dtype=np.str_)
        arrays[name] = value
        return {"$array": name, "dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, dict):
        return {"$dict": [[_encode(key, name, arrays), _encode(part, f"{name}.{i}", arrays)]
                         for i, (key, part) in enumerate(value.items())]}  # fmt: skip
    if isinstance(value, Sequence):
        return [_encode(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
    # a subclass that files do not know, such as a model on cliques, is written as its base class
    kind = next((base for base in type(value).__mro__ if base.__name__ in MODULES), None)
    if kind is None:
        raise LegendreError(f"{name or 'save'}: a file cannot hold an object of type {type(value).__name__}.")
    if kind.__name__ == "Basis":
        return {"$class": "Basis", "text": repr(value)}
    prefix = f"{name}." if name else ""
    # all attributes of an estimator, the fields of others; but not `Origin.device`, X's array library and its device: a
    # result that is read has NumPy arrays
    known = vars(value) if hasattr(kind, "set_params") else [part.name for part in fields(kind)]
    stored = (key for key in getattr(kind, "_stored", known) if key != "device")
    encoded = {key: _encode(getattr(value, key), f"{prefix}{key}", arrays) for key in stored}
    return {"$class": kind.__name__, **encoded}


def _encode_label(label: Any) -> Any:
    """Turn a label into what JSON can hold; types other than numbers, strings, dates and times become strings.

    ISO format keeps the offset of a time zone but not its name, so a name such as "Europe/Vienna" is stored too.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, DATES):
        # a datetime is a date too, so DATES lists `datetime` first
        kind = next(kind for kind in DATES if isinstance(label, kind))
        zone = str(getattr(label, "tzinfo", None))
        return {"$date": kind.__name__, "text": label.isoformat(), "zone": zone if "/" in zone else None}
    return label if isinstance(label, (bool, int, float, str)) else level_text(label)


def _decode_label(found: Any) -> Any:
    """Return the label that `_encode_label` wrote: a date or a time as such; a time zone is looked up by its name."""
    if not isinstance(found, dict):
        return found
    label: Any = next(kind for kind in DATES if kind.__name__ == found["$date"]).fromisoformat(found["text"])
    return label.replace(tzinfo=ZoneInfo(found["zone"])) if found["zone"] else label


def _decode(found: Any, arrays: Any) -> Any:
    """Make the value that `_encode` wrote; `arrays` is NumPy's mapping of names to the arrays of the file.

    An array that is larger than the file says elsewhere is not read: a small archive can hold gigabytes of zeros.

    Only classes that are listed in this package are made, so that a file from a stranger cannot run other code.
    """
    if isinstance(found, list):
        return tuple(_decode(part, arrays) for part in found)
    if not isinstance(found, dict):
        return found
    if "$array" in found:
        packed, shape = arrays.zip.getinfo(f"{found['$array']}.npy"), found["shape"]
        if packed.file_size > (1 << 16) + np.dtype(found["dtype"]).itemsize * math.prod(shape):  # 64 KiB for the header
            raise ValueError(f"{found['$array']} has {packed.file_size:,} bytes")
        array = arrays[found["$array"]]
        if array.dtype.str != found["dtype"] or list(array.shape) != found["shape"]:
            raise ValueError(f"{found['$array']} has shape {array.shape} and dtype {array.dtype}")
        return freeze(array)
    if "$labels" in found:
        return freeze(as_objects([_decode_label(label) for label in found["$labels"]]))
    if "$dict" in found:
        return {_decode(key, arrays): _decode(part, arrays) for key, part in found["$dict"]}
    if "$enum" in found:
        return _find_class(found["$enum"])[found["name"]]
    if found["$class"] == "Basis":
        return as_basis(found["text"])
    cls = _find_class(found["$class"])
    stored = {key: _decode(part, arrays) for key, part in found.items() if key != "$class"}
    make = cls.of if cls.__name__ == "Model" else getattr(cls, "_restore", cls)  # `of` chooses the kind of model
    return make(**stored)


def _find_class(name: str) -> Any:
    """Import and return a class by its name; refuse one that is not listed, because the file is damaged or foreign."""
    if name not in MODULES:
        raise ValueError(f"no result holds a {name}")
    return getattr(import_module(f"legendre.{MODULES[name]}"), name)
