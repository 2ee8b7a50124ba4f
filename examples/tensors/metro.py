"""
A metro by its effects
======================

Passengers by station, day and time. What does each of the three do, and what do two of them do together?
`fit.effects()` answers in numbers, `fit.plot.effects()` in pictures.

If the environment variable LEGENDRE_DATA names a folder with counts of the Hangzhou metro (80 stations, 25 days, slots
of ten minutes), these are used; otherwise a smaller city is drawn at random.
"""

import os
from pathlib import Path

import numpy as np

import legendre as ld


def drawn_city():
    """Draw 12 stations, 14 days, hours from 6 to 23: homes are busy in the morning, offices in the evening."""
    rng = np.random.default_rng(0)
    hours = np.arange(6, 24)
    morning, evening = np.exp(-((hours - 8) ** 2) / 3), np.exp(-((hours - 18) ** 2) / 5)
    home = np.linspace(0, 1, 12)[:, None, None]
    free = (np.arange(14) % 7 >= 5)[:, None]
    noon = np.exp(-((hours - 14) ** 2) / 20)
    size = rng.lognormal(5, 0.6, size=(12, 1, 1))
    working = 0.25 + 3 * home * morning + 3 * (1 - home) * evening
    rate = size * np.where(free, (0.1 + noon) * np.where((home > 0.4) & (home < 0.7), 2.5, 0.6), working)
    stations = ["Port", "Mill", "Court", "Bank", "Tower", "Arts", "Park", "Lake", "Hill", "Wood", "Field", "End"]
    days = np.arange("2024-03-04", "2024-03-18", dtype="datetime64[D]")
    return rng.poisson(rate), [stations, days, hours]


file = Path(os.environ.get("LEGENDRE_DATA", "")) / "hangzhou_metro.npz"
if file.is_file():
    X = np.load(file)["flow"]
    days = np.arange("2019-01-01", "2019-01-26", dtype="datetime64[D]")
    levels = [range(1, 81), days, [f"{6 + slot // 6:02}:{slot % 6}0" for slot in range(108)]]
else:
    X, levels = drawn_city()

fit = ld.decompose(X, ld.adaptive(50), names=["station", "day", "time"], levels=levels)
print(fit.effects())

# %%
# Lines show what one mode does to the fitted counts: a factor for each level, 1 on average. Maps show what two modes do
# together beyond that: orange is more than the lines predict, purple less. The map of stations and times shows which
# stations are busy in the morning and which in the evening.

fit.plot.effects()

# %%
# Are fifty parameters enough? The totals of each mode and each pair of modes show where the fit misses something.

fit.plot.margins()
