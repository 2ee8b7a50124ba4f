"""
Larger than memory
==================

A dask array is read block by block and never held as a whole; a table that comes in parts is counted part by part. The
answer is the same as for an array in memory, and the same on every run.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

# %%
# In this example 0.7 MB stand for 0.7 TB. Blocks of 70 kB are made when they are needed, as they would be read from
# zarr or HDF5.

day = np.arange(24) / 24


def block(block_info=None):
    """Make the counts of one block of stations."""
    begin, end = block_info[None]["array-location"][0]
    station = np.arange(begin, end)[:, None, None]
    rng = np.random.default_rng(begin)
    wave = 1.6 + np.sin(2 * np.pi * (day + station / 60)) + 0.3 * np.cos(np.arange(92) / 15)[:, None]
    return rng.poisson(3 * wave).astype(np.float64)


X = da.map_blocks(block, chunks=((4,) * 10, (92,), (24,)), dtype=np.float64)
print(f"{X.shape}, {X.nbytes / 1e6:.1f} MB in {X.npartitions} blocks of {X.nbytes / X.npartitions / 1e3:.0f} kB")

# %%
# The fit makes two passes over the blocks. The first checks X and computes margins; the second computes the sums above
# the cells of the basis.

fit = ld.decompose(X, ld.interactions([("station", "time"), ("day",)]), names=["station", "day", "time"])
print(fit.summary())
fit.plot.effects(most=6)

# %%
# A table can come in parts. A generator of batches, such as those of a parquet file, is counted without holding all
# rows in memory.

names = np.array(["bike", "bus", "car", "walk"])


def batches():
    """Yield 20 parts of 50,000 rows each."""
    for part in range(20):
        rng = np.random.default_rng(part)
        hour = rng.normal(13, 4, 50_000).clip(0, 23).astype(int)
        weights = np.array([2 + 2 * (hour < 10), 3 - (hour > 19), 1 + 3 * (hour > 17), np.full(50_000, 2)])
        chosen = (rng.random(50_000) * weights.sum(axis=0) > weights.cumsum(axis=0)).sum(axis=0)
        yield {"how": names[chosen], "hour": hour}


trips = ld.from_rows(batches())
print(trips)
table = ld.decompose(trips, ld.interactions(2)).tensor()

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for how, values in zip(trips.levels[0], np.asarray(table), strict=True):
    ax.plot(values, label=how)
ax.set(xlabel="hour", ylabel="trips", title="A million trips, counted in parts")
ax.legend()
