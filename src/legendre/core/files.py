"""Files that are written completely or not at all, and NumPy's files read without pickle."""

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
from legendre.core.types import PathName


def check_path(path: Any, example: str = "fit.npz") -> Path:
    """Return the name of a file as a path; refuse what cannot be one. `example` is a name that the error shows."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path):
        raise InvalidFile(f"a file name is a string, such as {example!r}, without null characters; got {path!r}.")
    return Path(path)


@contextmanager
def replacing(path: PathName, example: str = "fit.npz") -> Iterator[IO[bytes]]:
    """Yield a stream to a temporary file next to `path`, which replaces `path` when the block ends without an error.

    If the block fails, or the machine stops, the old file is as it was. A path that cannot be written to is refused at
    the start. `example` is the name that the error suggests if `path` is a folder.
    """
    target = Path(os.path.realpath(check_path(path, example)))  # a symbolic link stays one, and its target is replaced
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    advice = "Choose a folder you may write to."
    try:
        if target.is_dir():
            raise InvalidFile(f"cannot write {path}: it is a directory. Give a file name, e.g. {target / example}.")
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise InvalidFile(f"cannot write {path}: it is not an ordinary file.")
        with os.fdopen(_open_new(temporary), "wb") as stream:
            advice = "What was there before is unchanged."
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # on disk before the name changes
            if (
                not temporary.exists()
            ):  # it has no name yet; with a folder given, Python's link follows the one in /proc
                os.link(f"/proc/self/fd/{stream.fileno()}", temporary, src_dir_fd=0)
        if mode is not None:  # permissions of the old file
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except OSError as problem:
        raise InvalidFile(f"cannot write {path}: {problem.strerror or problem}. {advice}") from None
    finally:  # after success it is gone already
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _open_new(temporary: Path) -> int:
    """Open a new file for writing: without a name where the system can do that, so that a killed save leaves none.

    It has the permissions 0o666 less the user's umask, as any new file.
    """
    try:
        return os.open(temporary.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (AttributeError, OSError):  # O_EXCL: never write to a file that exists
        return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


@contextmanager
def numpy_file(path: PathName, advice: str = "") -> Iterator[Any]:
    """Open a .npy or .npz file: yield an array, or NumPy's mapping from names to arrays.

    Pickled objects are refused, because reading one can run any code. Every error of reading, also inside the block
    (arrays of an .npz are read when they are looked up), becomes an `InvalidFile`. `advice` is its last sentence, for
    users who name a file of another kind.
    """
    try:
        with check_path(path).open("rb") as stream:
            yield np.load(stream, allow_pickle=False)
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror or problem}.") from None
    except LegendreError:
        raise
    except MemoryError:
        raise TooLarge(f"cannot read {path}: its arrays do not fit in the memory that is left.") from None
    except Exception as problem:  # NumPy, zipfile and zlib have many
        said = f"damaged or truncated ({problem}), or not a NumPy file"
        raise InvalidFile(f"cannot read {path}: {said}. {advice}".strip()) from None
