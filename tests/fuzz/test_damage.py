"""A few hundred damaged files: none is believed, none ends in an error that is not the library's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .damage import Kind, array_campaign, byte_campaign, forged, kinds, packed, unpacked, verdict

pytestmark = pytest.mark.filterwarnings("ignore::legendre.core.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def every() -> list[Kind]:
    return list(kinds())


def check(reports: Iterator[tuple[str, str, str, str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, what, found, said in reports:
        assert found in ("refused", "harmless"), f"{name}; {what}: {said}"
        counts[found] += 1
    return counts


def test_changed_bytes_are_refused_or_harmless(every: list[Kind]) -> None:
    assert check(byte_campaign(every, 10 * len(every), seed=0))["refused"] > 150


def test_changed_arrays_are_refused_or_harmless(every: list[Kind]) -> None:
    assert check(array_campaign(every, 12 * len(every), seed=0))["refused"] > 150


@pytest.mark.parametrize("anew", [False, True], ids=["naive", "forged"])
def test_other_theta_is_refused_in_every_kind_of_fit(every: list[Kind], tmp_path: Path, *, anew: bool) -> None:
    """The campaign would notice: theta of a finished fit is moved by a millionth, with and without a new checksum."""
    tried = 0
    for kind in every:
        if kind.ending == ".tns.gz" or kind.name.endswith("under way"):
            continue
        arrays: dict[str, Any] = unpacked(kind.content)
        for name in arrays:
            own = (
                name.split("/")[-1].removeprefix("fit.") == "theta" and "growth" not in name and "under_way" not in name
            )
            if own and len(arrays[name]):
                changed = {**arrays, name: arrays[name] + 1e-6 * (np.arange(len(arrays[name])) + 1)}
                found, said = verdict(kind, packed(forged(changed) if anew else changed), tmp_path, data=True)
                assert found == "refused", f"{kind.name}, {name}: {said}"
                tried += 1
    assert tried > 10
