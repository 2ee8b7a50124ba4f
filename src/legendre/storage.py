"""Arrays in one npz file: written whole or not at all, read without pickle."""

from __future__ import annotations

import os
import secrets
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib.npyio import NpzFile

from legendre.arrays import AnyArray
from legendre.errors import InvalidFile


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write a new file beside `path` and put it in its place at the end: a failure leaves the old file as it was."""
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if target.is_dir():
            raise InvalidFile(f"cannot write {path}: it is a directory. Give a file name, e.g. {target / 'fit.npz'}.")
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise InvalidFile(f"cannot write {path}: it is not an ordinary file.")
        temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as problem:
        raise InvalidFile(f"cannot write {path}: {problem.strerror}. Choose a folder you may write to.") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except OSError as problem:
        raise InvalidFile(f"cannot write {path}: {problem.strerror}. What was there before is unchanged.") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write named arrays to a compressed npz file."""
    with replacing(path) as stream:
        np.savez_compressed(stream, **arrays)


@contextmanager
def numpy_file(path: str | os.PathLike[str]) -> Iterator[AnyArray | NpzFile]:
    """Open a .npy or .npz file without pickle; whatever is wrong with it becomes an `InvalidFile`."""
    try:
        with Path(path).open("rb") as stream:
            yield np.load(stream, allow_pickle=False)
    except InvalidFile:
        raise
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror or problem}.") from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        KeyError,
        NotImplementedError,
        SyntaxError,
        TokenError,
    ) as problem:
        if "pickle" in str(problem):
            reason = "it holds Python objects, or is not a NumPy file at all"
        else:
            reason = f"damaged or truncated ({problem})"
        raise InvalidFile(f"cannot read {path}: {reason}.") from None


def read_arrays(path: str | os.PathLike[str]) -> dict[str, AnyArray]:
    """Read all arrays of an npz file."""
    with numpy_file(path) as content:
        if not isinstance(content, NpzFile):
            raise InvalidFile(f"{path} holds a single array; a saved decomposition is an .npz file.")
        return {name: content[name] for name in content.files}
