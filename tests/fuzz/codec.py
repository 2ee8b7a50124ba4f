"""The arguments of a case as JSON, so that a case that failed stays one when the generators change."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_json(value: Any) -> Any:
    """Turn arguments into what `json.dumps` writes without loss: arrays keep dtype, shape and memory order."""
    if isinstance(value, np.ndarray):
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        flat = value.ravel()
        parts = [flat.real.tolist(), flat.imag.tolist()] if value.dtype.kind == "c" else [flat.tolist()]
        return {"array": parts, "dtype": value.dtype.str, "shape": list(value.shape), "order": order}
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, dict):
        return {"dict": [[to_json(k), to_json(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [to_json(item) for item in value]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a case cannot hold a {type(value).__name__}: {value!r}")


def from_json(value: Any) -> Any:
    """Read the arguments back."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        dtype, parts = np.dtype(value["dtype"]), value["array"]
        flat = np.array(parts[0], dtype=dtype if dtype.kind != "c" else np.float64)
        whole = flat + 1j * np.array(parts[1]) if dtype.kind == "c" else flat
        shaped = whole.astype(dtype, copy=False).reshape(value["shape"])
        return np.asfortranarray(shaped) if value["order"] == "F" else shaped
    if "dict" in value:
        return {from_json(k): from_json(v) for k, v in value["dict"]}
    if "tuple" in value:
        return tuple(from_json(item) for item in value["tuple"])
    return bytes.fromhex(value["bytes"]) if "bytes" in value else complex(*value["complex"])
