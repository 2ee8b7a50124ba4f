"""Reproducible property tests: the same examples on every run and every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "reproducible",
    derandomize=True,
    deadline=None,
    max_examples=40,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("reproducible")


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Set JAX to double precision, in all threads: `jax.enable_x64` holds for its own."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20180317)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Run compiled code in one thread: waking a second one costs more than all of a small problem."""
    import numba

    wanted = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(wanted)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Call the command line in this process, in an empty folder; return exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        from legendre.cli import main

        monkeypatch.setattr(sys, "argv", ["legendre", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return code or 0, out, err

    return run
