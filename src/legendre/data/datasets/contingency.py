"""Contingency tables that textbooks use. The counts are published facts; where each was read is in its docstring."""

from __future__ import annotations

import numpy as np

from legendre.data.readers.tables import from_rows
from legendre.data.sparse_tensor import SparseTensor

YES_NO = ["yes", "no"]
CLASSES = ["upper nonmanual", "lower nonmanual", "upper manual", "lower manual", "farm"]


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
    levels = {
        "class": ["1st", "2nd", "3rd", "crew"],
        "sex": ["male", "female"],
        "age": ["child", "adult"],
        "survived": ["no", "yes"],
    }
    return _table(
        levels,
        "0 5 118 57 0 1 4 140 0 11 154 14 0 13 13 80 35 13 387 75 17 14 89 76 0 0 670 192 0 0 3 20",
    )


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
    levels = {
        "hair": ["black", "brown", "red", "blond"],
        "eye": ["brown", "blue", "hazel", "green"],
        "sex": ["male", "female"],
    }
    return _table(
        levels,
        "32 36 11 9 10 5 3 2 53 66 50 34 25 29 15 14 10 16 10 7 7 7 7 7 3 4 30 64 5 5 8 8",
    )


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
    levels = {"alcohol": YES_NO, "cigarette": YES_NO, "marijuana": YES_NO}
    return _table(levels, "911 538 44 456 3 43 2 279")


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
    levels = {"son": CLASSES, "father": CLASSES, "country": ["United States", "Britain", "Japan"]}
    return _table(
        levels,
        "1275 474 127 1055 300 86 1043 438 43 1159 601 35 666 76 109 364 129 101 597 218 207 587 254 73 791 388 51 496 "
        "56 206 274 87 24 394 171 64 1045 669 122 1323 932 62 1031 125 184 272 124 30 443 220 61 951 703 60 2046 1789 "
        "66 1632 295 253 17 11 12 31 8 13 47 16 13 52 37 11 646 191 325",
    )


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
    levels = dict.fromkeys(("smoke", "mental", "physical", "systolic", "protein", "family"), YES_NO)
    return _table(
        levels,
        "44 5 23 7 35 4 24 4 129 9 50 9 109 14 51 5 112 21 70 14 80 11 73 13 12 1 7 2 7 5 7 4 40 7 32 3 12 3 25 0 145 "
        "17 80 16 67 17 63 14 67 9 66 14 33 8 57 11 23 4 13 3 9 2 16 4",
    )


def _table(levels: dict[str, list[str]], counts: str) -> SparseTensor:
    """Put names to counts, which are listed with the last mode running fastest."""
    places = np.indices([len(own) for own in levels.values()]).reshape(len(levels), -1)
    table = {name: [own[i] for i in place] for (name, own), place in zip(levels.items(), places, strict=True)}
    return from_rows({**table, "n": [int(n) for n in counts.split()]}, list(levels), "n", levels)
