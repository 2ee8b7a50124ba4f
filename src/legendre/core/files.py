"""Files that are written whole or not at all, and NumPy's files read without pickle."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from legendre.core.errors import InvalidFile, LegendreError, TooLarge


def check_path(path: Any, example: str = "fit.npz") -> Path:
    """Read the name of a file."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path):
        raise InvalidFile(f"a file name is a string, such as {example!r}, without null characters; got {path!r}.")
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str], example: str = "fit.npz") -> Iterator[IO[bytes]]:
    """Write a new file next to `path` and rename it at the end: a failure leaves the old file as it was.

    A path that cannot be written is refused at once; `example` is a name for the file where `path` is a folder.
    """
    target = Path(os.path.realpath(check_path(path, example)))  # a link stays a link
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    advice = "Choose a folder you may write to."
    try:
        if target.is_dir():
            raise InvalidFile(f"cannot write {path}: it is a directory. Give a file name, e.g. {target / example}.")
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise InvalidFile(f"cannot write {path}: it is not an ordinary file.")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream:
            advice = "What was there before is unchanged."
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except OSError as problem:
        raise InvalidFile(f"cannot write {path}: {problem.strerror or problem}. {advice}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def numpy_file(path: str | os.PathLike[str], advice: str = "") -> Iterator[Any]:
    """Open a .npy or .npz file, without pickle: yield an array, or NumPy's mapping from names to arrays.

    What is wrong with it becomes an `InvalidFile`; `advice` is a sentence for those who name a file of another kind.
    """
    try:
        with check_path(path).open("rb") as stream:
            yield np.load(stream, allow_pickle=False)
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror or problem}.") from None
    except MemoryError:
        raise TooLarge(f"cannot read {path}: its arrays do not fit in the memory that is left.") from None
    except LegendreError:
        raise
    except Exception as problem:  # NumPy, zipfile and zlib have many
        said = f"damaged or truncated ({problem}), or not a NumPy file"
        raise InvalidFile(f"cannot read {path}: {said}. {advice}".strip()) from None
