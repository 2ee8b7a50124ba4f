"""
Car parks with missing days
===========================

Car parks report every half hour how full they are. Some readings are missing, some days are missing entirely, and one
car park stopped reporting after three days. How full were they? `ld.complete` predicts the missing readings.

If LEGENDRE_DATA names a folder with the occupancy of Birmingham's car parks, these data are used; otherwise gaps of the
same kinds are cut into random data.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld


def drawn_parks():
    """Draw 10 parks, 28 days, 18 half hours: two kinds of park, quieter weekends, and gaps."""
    rng = np.random.default_rng(1)
    slot = np.linspace(8, 16.5, 18)
    office, shops = np.exp(-((slot - 11) ** 2) / 12), np.exp(-((slot - 14) ** 2) / 8)
    kind = rng.random((10, 1, 1))
    week = np.where(np.arange(28) % 7 < 5, 1.0, 0.5)[:, None] ** (2 * kind)
    rate = rng.lognormal(5.5, 0.5, (10, 1, 1)) * week * (0.2 + kind * office + (1 - kind) * shops)
    X = rng.poisson(rate).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[rng.random((10, 28)) < 0.08] = np.nan
    X[:, 16] = np.nan
    X[7, 3:] = np.nan
    return X


file = Path(os.environ.get("LEGENDRE_DATA", "")) / "birmingham_parking.npz"
if file.is_file():
    loaded = np.load(file)
    X = np.where(loaded["observed"], loaded["occupancy"], np.nan)[:12, :28]
else:
    X = drawn_parks()
print(f"{np.isnan(X).mean():.0%} of {X.size} readings are missing")

# %%
# Which model? Name several, and let held-out readings decide. A cell that the observed ones do not determine stays NaN:
# nothing is known about a day without readings, except from its neighbours.

names = ["park", "day", "slot"]
bases = [ld.interactions(1), ld.interactions([("park", "slot"), ("day",)]), ld.interactions(2)]
done = ld.complete(X, bases, names=names, folds=5, rng=0)
print(done.cv)
print(done.summary())

# %%
# Without a basis, `complete` learns which parks, days and half hours are alike, and fills in every cell.

smooth = ld.complete(X, names=names, rng=0)

figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", sharey=True)
shown = {"readings": X, "filled by interactions": done.tensor(), "filled without a basis": smooth.tensor()}
for ax, (title, values) in zip(axes, shown.items(), strict=True):
    picture = ax.imshow(np.ma.masked_invalid(values[7]), aspect="auto", cmap="cividis", vmin=0)
    ax.set_facecolor("0.85")
    ax.set(title=title, xlabel="half hour")
axes[0].set_ylabel("day")
figure.suptitle("The car park that stopped reporting after three days")
figure.colorbar(picture, ax=axes, label="cars")

# %%
# This is a week of that car park, with intervals: 90 % of the missing readings should lie in the band.

lower, upper = smooth.interval(0.9)
figure, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
week, place = slice(1, 8), np.arange(7 * X.shape[2])
ax.fill_between(place, lower[7, week].ravel(), upper[7, week].ravel(), color="tab:blue", alpha=0.3, linewidth=0)
ax.plot(place, smooth.tensor()[7, week].ravel(), color="tab:blue", label="filled in, with 90 % intervals")
ax.plot(place, X[7, week].ravel(), ".", color="black", label="readings")
ax.set(xlabel="half hours of seven days", ylabel="cars", ylim=(0, None))
ax.legend(frameon=False)

# %%
# How far off are the predictions? Hide some of the readings, and compare.

rng = np.random.default_rng(5)
hidden = ~np.isnan(X) & (rng.random(X.shape) < 0.1)
guess = ld.complete(np.where(hidden, np.nan, X), names=names, rng=0).tensor()
error = np.abs(guess - X)[hidden].sum() / X[hidden].sum()
print(f"{hidden.sum()} readings hidden: filled in with an error of {error:.1%} of their sum")
figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ax.axline((0, 0), (1, 1), color="0.6", linewidth=1)
ax.plot(X[hidden], guess[hidden], ".", alpha=0.5)
ax.set(title="Hidden readings and their predictions", xlabel="reading", ylabel="prediction")
