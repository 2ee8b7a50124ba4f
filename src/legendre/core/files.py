"""Arrays in one npz file: written whole or not at all, read without pickle."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from legendre.core.errors import InvalidFile, TooLarge
from legendre.core.npz import DAMAGED, NotNumpy, Npz, read_numpy
from legendre.core.types import AnyArray


@contextmanager
def replacing(path: str | os.PathLike[str], example: str = "fit.npz") -> Iterator[IO[bytes]]:
    """Write a new file beside `path` and put it in its place at the end: a failure leaves the old file as it was."""
    temporary, target, mode, handle = _beside(path, example)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except OSError as problem:
        said = problem.strerror or problem
        raise InvalidFile(f"cannot write {path}: {said}. What was there before is unchanged.") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _beside(path: str | os.PathLike[str], example: str) -> tuple[Path, Path, int | None, int]:
    """Open a new file beside `path`: return its path, the file it will replace, that file's mode, and a handle."""
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if target.is_dir():
            raise InvalidFile(f"cannot write {path}: it is a directory. Give a file name, e.g. {target / example}.")
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise InvalidFile(f"cannot write {path}: it is not an ordinary file.")
        temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        return temporary, target, mode, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as problem:
        said = problem.strerror or problem
        raise InvalidFile(f"cannot write {path}: {said}. Choose a folder you may write to.") from None


def check_writable(path: str | os.PathLike[str], example: str = "fit.npz") -> None:
    """Refuse now what `replacing` would refuse later; `example` is a name for the file where `path` is a folder."""
    temporary, _, _, handle = _beside(path, example)
    try:
        os.close(handle)
        temporary.unlink()
    except OSError as problem:
        raise InvalidFile(f"cannot write {path}: {problem.strerror or problem}.") from None


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write named arrays to an npz file."""
    with replacing(path) as stream:
        np.savez_compressed(stream, **arrays)


@contextmanager
def numpy_file(path: str | os.PathLike[str], advice: str = "") -> Iterator[AnyArray | Npz]:
    """Open a .npy or .npz file without pickle; whatever is wrong with it becomes an `InvalidFile`.

    `advice` is a sentence for those who name a file of another kind.
    """
    try:
        with Path(path).open("rb") as stream:
            yield read_numpy(stream, os.fstat(stream.fileno()).st_size)
    except (InvalidFile, TooLarge):
        raise
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror or problem}.") from None
    except NotNumpy as problem:
        raise InvalidFile(f"cannot read {path}: {problem}. {advice}".strip()) from None
    except MemoryError:
        raise TooLarge(f"cannot read {path}: its arrays do not fit in the memory that is left.") from None
    except DAMAGED as problem:
        raise InvalidFile(f"cannot read {path}: damaged or truncated ({problem}).") from None


def read_arrays(
    path: str | os.PathLike[str], what: str = "a saved decomposition", advice: str = ""
) -> dict[str, AnyArray]:
    """Read all arrays of an npz file, in which `what` was expected."""
    with numpy_file(path, advice) as content:
        if isinstance(content, np.ndarray):
            raise InvalidFile(f"{path} holds a single array; {what} is an .npz file.")
        return {name: content[name] for name in content.files}
