"""The tensors that come with the package: counts, names, levels."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import legendre as ld
from legendre.core.errors import InvalidSetting
from legendre.data.sparse_tensor import SparseTensor

ORACLES = Path(__file__).parents[1] / "oracles"
TABLES = {
    "titanic": ("Titanic", ("class", "sex", "age", "survived")),
    "hair_eye_color": ("HairEyeColor", ("hair", "eye", "sex")),
    "drug_use": ("DrugUse", ("alcohol", "cigarette", "marijuana")),
    "social_mobility": ("Yamaguchi87", ("son", "father", "country")),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_r(name: str) -> None:
    theirs, names = TABLES[name]
    table: SparseTensor = getattr(ld.datasets, name)()
    with np.load(ORACLES / "contingency.npz") as arrays:
        np.testing.assert_array_equal(table.toarray(), arrays[theirs])
    assert table.names == names
    assert table.levels is not None
    assert [len(level) for level in table.levels if level is not None] == list(table.shape)


def test_the_car_workers_are_1841_and_answer_six_questions() -> None:
    table = ld.datasets.car_workers().toarray()
    assert (table.shape, table.sum()) == ((2,) * 6, 1841)
    assert table.sum(axis=(2, 3, 4, 5)).tolist() == [[522, 439], [541, 339]]  # smoke x mental work


def test_flights_have_names_and_add_up() -> None:
    X = ld.datasets.flights()
    assert X.levels is not None
    carriers, destinations, hours = (np.asarray(level).tolist() for level in X.levels)
    assert (X.names, X.shape, X.values.sum()) == (("carrier", "dest", "hour"), (16, 105, 20), 336_776)
    assert hours == [1, *range(5, 24)]
    assert destinations == sorted(destinations)
    full = X.toarray()
    # JetBlue to Boston, and all that leaves between 8 and 9: counted in the original table
    assert full[carriers.index("B6"), destinations.index("BOS")].sum() == 4383
    assert full.sum(axis=(0, 1))[hours.index(8)] == 27_242


def test_the_file_of_flights_says_where_it_is_from() -> None:
    folder = Path(ld.datasets.__file__).parent
    assert "CC0" in (folder / "flights.licence.md").read_text()
    with (folder / "flights.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2_359
    assert list(rows[0]) == ["carrier", "dest", "hour", "n"]


def test_every_dataset_says_source_and_licence() -> None:
    for name in ld.datasets.__all__:
        text = getattr(ld.datasets, name).__doc__
        assert "Source: " in text
        assert "icence" in text


def test_digits_are_rows_columns_and_images() -> None:
    from sklearn.datasets import load_digits

    X, theirs = ld.datasets.digits(2), load_digits()
    assert X.levels is not None
    third = X.toarray()[:, :, np.asarray(X.levels[2]).tolist().index("3-1")]
    np.testing.assert_array_equal(third, theirs.images[np.flatnonzero(theirs.target == 3)[0]])
    assert X.shape == (8, 8, 20)


def test_digits_refuse_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (0, 175, 2.5, "4"):
        with pytest.raises(InvalidSetting, match="per_digit"):
            ld.datasets.digits(wrong)  # type: ignore[arg-type]
    monkeypatch.setattr("legendre.core.arguments.find_spec", {}.get)
    with pytest.raises(InvalidSetting, match=r"digits needs sklearn\. Install it with: pip install scikit-learn"):
        ld.datasets.digits()
