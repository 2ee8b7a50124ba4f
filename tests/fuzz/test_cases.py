"""Cases that once failed, replayed with the arguments that they had: ``tests/fuzz/cases/*.txt``."""

from __future__ import annotations

from pathlib import Path

import pytest

from .run import from_text, run_case

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_that_once_failed_is_right(path: Path) -> None:
    # twice the call, on slow processors too
    verdict = run_case(*from_text(path.read_text()), 40.0)
    assert not verdict.failed, f"{verdict.kind}: {verdict.said}"
