"""NumPy's files, read within their own length: what a header claims is compared with the bytes before room is made.

A file may be damaged, cut off or made by somebody else. Python objects are never unpickled, no array is larger than the
bytes that the file holds for it, and every byte of a member of an archive has gone into the checksum of the zip format
before its array is handed out.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

import numpy as np

from legendre.core.memory import check_room
from legendre.core.python_text import expression
from legendre.core.types import AnyArray

DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, NotImplementedError, SyntaxError,
    OverflowError, RecursionError, struct.error,
)  # fmt: skip
"""What reading a damaged file raises, in zipfile, in zlib and in NumPy's reader of headers."""
MOST_DEFLATED = 1032  # bytes that one byte of a deflated stream can stand for: the format's own limit
LOCAL_HEADER, EXTRA = 30, 64  # bytes before each member, without its name; and most of what may stand between two
SPARE = 64  # bytes by which a few-byte member may exceed that ratio
CHUNK = 1 << 20  # bytes read at a time
HEADERS = {(1, 0): "<H", (2, 0): "<I"}  # how the length of a header is written, by the version of the format
DTYPE = re.compile(r"[<>|=]([biufcUSVO]\d*|[mM]8(\[\w+\])?)")  # the dtypes that NumPy writes, but for records
LONGEST_HEADER = 10_000  # characters of a header: NumPy's own limit
NOT_NUMPY = "it holds Python objects, or is not a NumPy file at all"


class NotNumpy(ValueError):
    """A file holds Python objects, or something else altogether."""


@dataclass(frozen=True, eq=False)
class Npz:
    """The arrays of an archive by name, each read when it is asked for."""

    archive: zipfile.ZipFile
    length: int  # of the file, in bytes

    @cached_property
    def members(self) -> dict[str, zipfile.ZipInfo]:
        """The members of the archive by the name of their array; refused where sizes cannot be true."""
        found: dict[str, zipfile.ZipInfo] = {}
        for info in self.archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"it holds '{name}' twice")
            self._check(name, info)
            found[name] = info
        at = 0
        for info in sorted(found.values(), key=lambda info: info.header_offset):
            self._check_between(at, info.header_offset)
            at = info.header_offset + LOCAL_HEADER + len(info.filename.encode()) + info.compress_size
        self._check_between(at, self.archive.start_dir)
        return found

    @staticmethod
    def _check_between(end: int, start: int) -> None:
        """Refuse members that overlap, and bytes between them in which another may be that the directory lost."""
        if not 0 <= start - end <= EXTRA:
            raise ValueError(f"the bytes from {end:,} to {start:,} are of no part that its directory lists")

    @property
    def files(self) -> list[str]:
        """The names of the arrays, in the order in which they were written."""
        return list(self.members)

    def _check(self, name: str, info: zipfile.ZipInfo) -> None:
        """Refuse a member that NumPy has not written, or whose size is more than its bytes can hold."""
        if info.flag_bits & 1:
            raise ValueError(f"'{name}' is encrypted")
        if info.compress_type == zipfile.ZIP_STORED:
            most = info.compress_size
        elif info.compress_type == zipfile.ZIP_DEFLATED:
            most = MOST_DEFLATED * info.compress_size + SPARE
        else:
            raise ValueError(f"'{name}' is compressed in a way that NumPy does not write")
        if info.compress_size > self.length or info.file_size > most:
            raise ValueError(f"'{name}' claims {info.file_size:,} bytes, of which the file holds at most {most:,}")

    def __getitem__(self, name: str) -> AnyArray:
        info = self.members[name]
        with self.archive.open(info) as stream:
            array = read_array(stream, info.file_size, f"'{name}'")
            if stream.read(1):  # at the end zipfile compares the checksum of all bytes
                raise ValueError(f"'{name}' is longer than it says")
        return array


def read_numpy(stream: IO[bytes], length: int) -> AnyArray | Npz:
    """Read a .npy file, or open an .npz file, of a given length in bytes."""
    start = stream.read(6)
    stream.seek(0)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return Npz(zipfile.ZipFile(stream), length)
    if start == b"\x93NUMPY":
        return read_array(stream, length, "the array")
    if not start:
        raise EOFError("the file is empty")
    raise NotNumpy(NOT_NUMPY)


def read_array(stream: IO[bytes], length: int, name: str) -> AnyArray:
    """Read an array from a stream of a given length, header included; `name` says in an error which one it is."""
    shape, by_columns, dtype = _read_header(stream, name)
    if dtype.hasobject:
        raise NotNumpy(NOT_NUMPY)
    left, count = length - stream.tell(), math.prod(shape)
    needed = count * dtype.itemsize
    if needed > left or count > max(length, 1):
        raise ValueError(f"{name} claims shape {shape} of {dtype}, for which there are {max(left, 0):,} bytes")
    check_room(needed, 1, f"{name}: bytes", "Read the file on a machine that has as much.")
    content = np.empty(needed, dtype=np.uint8)
    at = 0
    while at < needed:
        part = stream.read(min(CHUNK, needed - at))
        if not part:
            raise EOFError(f"{name} ends after {at:,} of {needed:,} bytes")
        content[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
        at += len(part)
    flat = content.view(dtype) if dtype.itemsize else np.empty(count, dtype=dtype)
    return flat.reshape(shape, order="F" if by_columns else "C")


def _read_header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and dtype: a dictionary of Python in a line, of a length that is written before it."""
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:
        raise ValueError(f"{name} has a header of version {version}")
    layout = HEADERS[version]
    (size,) = struct.unpack(layout, stream.read(struct.calcsize(layout)))
    if size > LONGEST_HEADER:
        raise ValueError(f"{name} has a header of {size:,} bytes")
    said = ast.literal_eval(expression(stream.read(size).decode("latin1").lstrip(" \t")))
    if not isinstance(said, dict) or said.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"{name} has a header of other entries")
    shape, by_columns = said["shape"], said["fortran_order"]
    if not (isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape) and type(by_columns) is bool):
        raise ValueError(f"{name} claims shape {shape!r}, fortran_order {by_columns!r}")
    try:
        if not DTYPE.fullmatch(said["descr"]):  # records have lists here
            raise TypeError
        return shape, by_columns, np.dtype(said["descr"])
    except TypeError:
        raise ValueError(f"{name} has dtype {said['descr']!r}, which is none of numbers or texts") from None


def checksum(arrays: Mapping[str, Any]) -> str:
    """Name the whole content of a file: names, types, shapes and bytes.

    >>> checksum({"a": np.ones(2), "b": 3}) == checksum({"b": 3, "a": [1.0, 1.0]})
    True
    """
    code = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.asanyarray(arrays[name])
        code.update(f"{name}\0{array.dtype.str}{array.shape}".encode())
        if array.nbytes:
            code.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return code.hexdigest()
