"""
From raw rows to a model of a table
===================================

A survey comes as rows, one for each person. Counted, the rows are a contingency table; a log-linear model says which
of its variables hang together.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import legendre as ld

# %%
# The rows: here the students of `ld.datasets.hair_eye_color`, one row each, as they would come from a file.

table = ld.datasets.hair_eye_color()
cells = np.repeat(table.cells, table.values.astype(int), axis=0)
named = {name: np.asarray(table.levels[k])[cells[:, k]] for k, name in enumerate(table.names)}
rows = pd.DataFrame(named).sample(frac=1.0, random_state=0, ignore_index=True)
rows.head()

# %%
# Count them, and fit three models: nothing depends on anything; hair and eyes do; and all pairs do.

X = ld.from_rows(rows)
models = {
    "independent": ld.interactions(1),
    "hair with eye": ld.interactions([("hair", "eye"), ("sex",)]),
    "all pairs": ld.interactions(2),
}
fits = {name: ld.decompose(X, basis) for name, basis in models.items()}
for name, fit in fits.items():
    tests = fit.inference()
    print(f"{name:14} G2 = {tests.g2:6.1f} on {tests.df:2} df, p = {tests.g2_p_value:.2g}")

# %%
# The p-value of the second model says that sex has little to do with either; all pairs together leave nothing to
# explain. Where the model of independence fails, cell by cell (adjusted residuals are about standard normal where a
# model holds):

residuals = fits["independent"].inference().residuals("adjusted")
shown = np.asarray(residuals).reshape(X.shape).sum(axis=2) / np.sqrt(2)
figure, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
picture = ax.imshow(shown, cmap="PuOr_r", vmin=-10, vmax=10)
ax.set_xticks(range(X.shape[1]), X.levels[1])
ax.set_yticks(range(X.shape[0]), X.levels[0])
ax.set(xlabel="eye", ylabel="hair", title="More (orange) or fewer (purple) than independence says")
figure.colorbar(picture, label="adjusted residual")

# %%
# What the chosen model says of one group: eyes of people with black hair.

print(fits["hair with eye"].marginal("eye", given={"hair": "black"}).round(3))
