"""
A hundred columns
=================

A table with a hundred yes-or-no columns has 2^100 cells, more than any computer can list. If each column depends on few
others, as in chains, trees or narrow lattices, all sums can be computed along a tree of cliques. The fit is just as
exact.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

rng = np.random.default_rng(0)
rows = rng.integers(0, 2, size=(20_000, 100))
for k in range(1, 100):  # a column sometimes copies the one before it, more often further right
    copy = rng.random(20_000) < 0.2 + 0.6 * k / 100
    rows[copy, k] = rows[copy, k - 1]

X = ld.from_rows(rows, levels=2)
chain = [(k, k + 1) for k in range(99)]
began = time.perf_counter()
fit = ld.decompose(X, ld.interactions(chain))
print(fit)
print(f"{time.perf_counter() - began:.2f} s for {X.shape[0]}^{len(X.shape)} cells")

# %%
# Marginals and conditionals of any columns are computed without forming a large table. What does column 50 say about
# the others?

yes = [fit.marginal([k], given={50: 1})[1] for k in range(100) if k != 50]
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.plot([k for k in range(100) if k != 50], yes, ".-")
ax.axhline(0.5, color="0.6", linewidth=1)
ax.axvline(50, color="#d55e00", linewidth=1)
ax.set(xlabel="column", ylabel="probability of yes", title="Given that column 50 says yes")

# %%
# Samples from the fit have the same correlations as the data, also between columns that are not coupled directly.

drawn = fit.sample(20_000, rng=1)
lags = range(1, 9)
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for values, name, mark in [(rows, "data", "o"), (np.asarray(drawn), "drawn from the fit", "x")]:
    agree = [np.mean(values[:, 60] == values[:, 60 + lag]) for lag in lags]
    ax.plot(lags, agree, mark, label=name)
ax.set(xlabel="columns apart", ylabel="share that agrees", title="Column 60 and those after it")
ax.legend()
