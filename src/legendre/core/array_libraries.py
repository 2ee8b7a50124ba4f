"""Array libraries and their devices: NumPy's memory, or that of another library.

X may be a torch tensor, a JAX array or a CuPy array; what is computed of it goes back where X came from. Only here is
anything known about those libraries beyond the functions of the array API standard, and none of them is imported
before one of its arrays is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from legendre.core.errors import InvalidTensor, LegendreError
from legendre.core.types import AnyArray

NAMESPACES = {
    "numpy": "numpy",
    "torch": "array_api_compat.torch",
    "cupy": "array_api_compat.cupy",
    "jax": "jax.numpy",
    "array_api_strict": "array_api_strict",
}
"""Libraries and their functions as the standard names them. array_api_strict is for tests: it has nothing else."""


@dataclass(frozen=True)
class Device:
    """An array library and one of its devices."""

    library: str
    unit: Any = "cpu"  # as the library names it

    @property
    def xp(self) -> Any:
        """The library's functions; not kept, for a module cannot be pickled."""
        return import_module(NAMESPACES[self.library])

    @property
    def remote(self) -> bool:
        """True when the device is not the processor, so that reading from it is a transfer."""
        return "cpu" not in str(self.unit).lower()

    def bring(self, array: AnyArray) -> Any:
        """Copy a NumPy array to this library's device; on the processor it may share its memory."""
        if self.library == "numpy":
            return array
        # torch takes no negative strides, and warns of read-only memory
        fresh, unit = np.require(array, requirements=["C", "W"]), self.unit
        if self.library == "jax":
            platform, _, number = unit.partition(":")
            unit = next(d for d in import_module("jax").devices(platform) if d.id == int(number))
        return self.xp.asarray(fresh, device=unit)

    def host(self, array: Any) -> AnyArray:
        """Copy an array to NumPy; floats that NumPy does not have become float32 or float64."""
        values: AnyArray
        match self.library:
            case "torch":
                try:
                    values = array.numpy(force=True)
                except TypeError:  # bfloat16
                    values = array.double().numpy(force=True)
            case "cupy":
                values = array.get()
            case "array_api_strict":
                values = np.asarray(array.to_device(self.xp.Device("CPU_DEVICE")))
            case _:
                values = np.asarray(array)
        return values.astype(np.float32) if values.dtype.kind == "V" else values


HERE = Device("numpy")  # NumPy's memory


def host(X: Any, name: str = "X", error: type[LegendreError] = InvalidTensor) -> Any:
    """Take an array of another library to NumPy; anything else comes back as it is."""
    library = library_of(X)
    if library == "numpy":
        return X
    _check_readable(X, library, name, error)
    try:
        return Device(library).host(X)
    except (TypeError, RuntimeError, NotImplementedError) as problem:
        raise error(f"{name} is a {library} array that cannot be read ({problem}).") from None


def as_array(value: Any, name: str, error: type[LegendreError], ragged: Callable[[ValueError], str]) -> AnyArray:
    """Return a value as an array; `ragged` says what is wrong where NumPy's own ValueError speaks of unequal rows.

    Whatever another library raises where NumPy has no such type becomes a sentence, too.
    """
    try:
        return np.asarray(value)
    except ValueError as problem:
        raise error(ragged(problem)) from None
    except MemoryError:
        raise
    except Exception as problem:
        reason = str(problem).rstrip(".")
        raise error(f"{name} is an object of type {type(value).__name__} that NumPy cannot read: {reason}.") from None


def rectangular(value: Any, name: str, error: type[LegendreError]) -> AnyArray:
    """Return a caller's value as an array; rows of different lengths are refused."""

    def ragged(problem: ValueError) -> str:
        reason = "its rows differ in length" if "inhomogeneous" in str(problem) else str(problem).rstrip(".")
        return f"{name} is not a rectangular array: {reason}."

    return as_array(host(value, name, error), name, error, ragged)


def device_of(X: Any) -> Device:
    """Find the library and the device of X, on which results must have double precision."""
    library = library_of(X)
    if library == "numpy":
        return HERE
    _check_readable(X, library, "X", InvalidTensor)
    if library == "jax":  # the device by its name, for JAX's own objects cannot be pickled
        (unit,) = X.devices()
        device = Device(library, f"{unit.platform}:{unit.id}")
    else:
        device = Device(library, X.device)
    _check_library(device)
    return device


def library_of(X: Any) -> str:
    """Name the array library X belongs to by its type; NumPy for all that is no array of another one."""
    if isinstance(X, (np.ndarray, list, tuple)):
        return "numpy"
    for kind in type(X).__mro__:
        root = "jax" if kind.__module__.startswith("jaxlib") else kind.__module__.partition(".")[0]
        if root in NAMESPACES and kind.__name__ != "dtype":
            return root
    return "numpy"


def _check_readable(X: Any, library: str, name: str, error: type[LegendreError]) -> None:
    if library == "torch" and getattr(X, "layout", None) != import_module("torch").strided:
        kind = getattr(X, "layout", type(X).__name__)
        raise error(f"{name} is not a dense torch tensor ({kind}). Pass {name}.to_dense().")
    if library != "jax":
        return
    jax = import_module("jax")
    if isinstance(X, jax.core.Tracer):
        raise error(
            f"{name} has no values: JAX is tracing it (jit, grad, vmap). Decompositions cannot be traced; call the "
            "function outside."
        )
    if not isinstance(X, jax.Array):
        raise error(f"{name} is not a dense JAX array ({type(X).__name__}). Pass {name}.todense().")
    if len(X.devices()) > 1:
        raise error(
            f"{name} is spread over {len(X.devices())} devices. Gather it: jax.device_put({name}, jax.devices()[0])."
        )


def _check_library(device: Device) -> None:
    """Refuse a library that is not installed, and a device without float64: results would lose half of their digits."""
    try:
        _ = device.xp
    except ImportError:
        raise InvalidTensor(
            f"X is a {device.library} array, and reading those needs array-api-compat: pip install 'legendre[arrays]'. "
            "Or pass a NumPy array."
        ) from None
    if device.library == "jax" and not import_module("jax").config.jax_enable_x64:
        raise InvalidTensor(
            "X is a JAX array, but JAX is set to float32, and results need float64. Call "
            "jax.config.update('jax_enable_x64', True) at the start of the program, or pass np.asarray(X)."
        )
    if device.library == "torch" and device.unit.type == "mps":
        raise InvalidTensor("X is on a device without float64 (mps), which results need. Pass X.cpu().")
