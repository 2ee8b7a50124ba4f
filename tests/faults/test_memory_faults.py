"""Little memory (``ulimit -v``): the right answer or a sentence of ours, never a crash, a hang or a wrong answer."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import legendre as ld
from legendre.core.memory import memory_told

SCRIPT = Path(__file__).with_name("little_memory.py")
RIGHT, REFUSED = 0, 12  # its exit codes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_less_and_less_memory_ends_in_the_answer_or_in_a_sentence() -> None:
    # without the tracer of coverage, which does not survive a failed allocation
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ends: dict[str, list[int]] = {}
    for line in done.stdout.splitlines():
        name, room, killed, ended, said = line.split("\t")
        assert killed == "0", f"{name} with {room} MiB died by signal {killed}"
        assert int(ended) in (RIGHT, REFUSED), f"{name} with {room} MiB: {said}"
        if int(ended) == REFUSED:
            assert "memory ran out" in said, said
            assert "Take a smaller tensor or basis, or give this process more" in said, said
        ends.setdefault(name, []).append(int(ended))
    assert set(ends) == {"decompose", "complete", "balance", "tensor"}
    for name, found in ends.items():
        assert len(found) == 7
        assert found[0] == RIGHT, name
    assert any(REFUSED in found for found in ends.values())
    assert ends["tensor"][-1] == REFUSED


def test_a_library_that_cannot_be_mapped_is_a_lack_of_memory() -> None:
    def load() -> None:
        try:
            raise OSError("libfast.so: failed to map segment from shared object")
        except OSError:
            raise OSError("Could not load it") from None

    with pytest.raises(ld.errors.TooLarge, match=r"^complete: memory ran out \(Could not"), memory_told("complete"):
        load()


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(FileNotFoundError), memory_told("complete"):
        raise FileNotFoundError(errno.ENOENT, "No such file", "x.npy")
    with pytest.raises(ld.errors.TooLarge, match=r"^an array"), memory_told("complete"):
        raise ld.errors.TooLarge("an array")
    with pytest.raises(ImportError, match="pandas"), memory_told("complete"):
        raise ImportError("No module named pandas")


def test_an_allocation_without_a_message() -> None:
    with (
        pytest.raises(ld.errors.TooLarge, match=r": memory ran out \(an allocation failed\)"),
        memory_told("decompose"),
    ):
        raise MemoryError


def test_without_a_limit_blas_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    from legendre.core import memory

    def never() -> None:
        raise AssertionError

    monkeypatch.setattr(memory, "_load_blas", never)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with memory_told("decompose"):
        pass


def test_blas_is_loaded_while_there_is_room_where_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    from legendre.core import memory

    called: list[bool] = []
    monkeypatch.setattr(memory, "_load_blas", lambda: called.append(True))
    monkeypatch.setattr(memory, "_of_the_process", lambda: 1e12)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 40, resource.RLIM_INFINITY))
    with memory_told("decompose"):
        assert called == [True]


def test_the_first_use_of_a_name_imports_and_may_run_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(ld, "import_module", no_room)
    monkeypatch.delitem(vars(ld), "complete", raising=False)
    with pytest.raises(ld.errors.TooLarge, match=r"^import of legendre\.complete: memory ran out \(an allocation"):
        _ = ld.complete


def test_nothing_is_begun_where_the_stack_could_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit with 4 MiB of addresses left once ended by signal 11."""
    from legendre.core import memory

    monkeypatch.setattr(memory, "_limited", lambda: True)
    monkeypatch.setattr(memory, "_of_the_process", lambda: 4.0 * 2**20)
    with (
        pytest.raises(ld.errors.TooLarge, match=r"^decompose: memory ran out \(4\.0 MiB are left to this process\)\. "),
        memory_told("decompose"),
    ):
        raise AssertionError
