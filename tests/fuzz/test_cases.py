"""Cases that once failed, replayed with the arguments that they had: ``tests/fuzz/cases/*.json``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .codec import from_json
from .run import run_case

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_that_once_failed_is_right(path: Path) -> None:
    case = json.loads(path.read_text())
    # twice the call, on slow processors too
    verdict = run_case(case["target"], from_json(case["args"]), 40.0)
    assert not verdict.failed, f"{verdict.kind}: {verdict.said}"
