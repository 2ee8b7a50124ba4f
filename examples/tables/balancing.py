"""
Balancing a trade table
=======================

Last year's trade between regions is known in full. Of this year we know only how much each region sent and received in
total. What did the regions trade with each other? Among all tables with this year's totals, `ld.balance` finds the one
with the least Kullback-Leibler divergence from last year's. Statisticians call this raking or iterative proportional
fitting, economists RAS.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import legendre as ld

rng = np.random.default_rng(3)
regions = ["North", "East", "South", "West", "Coast", "Isles"]
distance = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
trade = np.outer(rng.lognormal(3, 0.7, 6), rng.lognormal(2, 0.7, 6)) / (1 + distance)
np.fill_diagonal(trade, 0.0)
trade[5, :3] = 0.0  # the isles never sent anything there, and 0 stays 0
last_year = pd.DataFrame(trade, index=pd.Index(regions, name="from"), columns=pd.Index(regions, name="to")).round(1)
last_year

# %%
# This year the coast grows by half and the west shrinks. Exports and imports must have the same total.

sent = last_year.sum(axis=1) * [1.0, 1.1, 1.0, 0.7, 1.5, 1.2]
received = last_year.sum(axis=0) * [1.1, 1.0, 0.9, 0.8, 1.5, 1.0]
received *= sent.sum() / received.sum()
result = ld.balance(last_year, {"from": dict(sent), "to": dict(received)})
print(result.summary())
result.tensor().round(1)

# %%
# Each cell is last year's cell times a factor for its row and a factor for its column.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
change = np.log2(result.tensor() / last_year.where(last_year > 0))
picture = left.imshow(np.ma.masked_invalid(change), cmap="PuOr_r", vmin=-1.6, vmax=1.6)
left.set_facecolor("0.85")
left.set_xticks(range(6), regions, rotation=45)
left.set_yticks(range(6), regions)
left.set(xlabel="to", ylabel="from", title="This year against last year (grey: no trade)")
bar = figure.colorbar(picture, ax=left)
bar.set_ticks([-1, 0, 1], labels=["half as much", "the same", "twice"])
for mode, name in enumerate(["sends", "receives"]):
    right.plot(regions, result.factors[mode], "o", label=f"region that {name}")
right.axhline(1.0, color="0.6", linewidth=1)
right.set(title="The factors", ylabel="factor")
right.legend()

# %%
# If no table has the totals, the error says which block of zeros rules it out.

try:
    ld.balance([[1, 0, 0], [2, 0, 0], [1, 1, 1]], {0: [0.3, 0.3, 0.4], 1: [0.4, 0.3, 0.3]})
except ld.LegendreError as error:
    print(error)
