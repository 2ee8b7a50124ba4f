"""
Flights by labels
=================

All 336,776 flights that left New York in 2013, counted by carrier, destination and hour. Which carriers fly where, and
when? Every question is asked by name, and every answer has names.
"""

import matplotlib.pyplot as plt

import legendre as ld

X = ld.datasets.flights()
fit = ld.decompose(X, ld.adaptive(200))
fit

# %%
# The picture shows what carrier, destination and hour do, alone and in pairs. Only one flight left at 1 o'clock: the
# factor of a level with fewer than five flights means nothing, so the level is grey.

fit.plot.effects()

# %%
# When do flights to Los Angeles leave, and with which carrier? Which flight is the most common of all?

counts = X.toarray()[:, list(X.levels[1]).index("LAX")]  # carrier x hour, as counted
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for ax, mode, axis in zip(axes, ["hour", "carrier"], [0, 1], strict=True):
    names = [str(level) for level in X.levels[list(X.names).index(mode)]]
    ax.bar(names, fit.marginal(mode, given={"dest": "LAX"}), color="#0072b2", label="fitted")
    ax.plot(names, counts.sum(axis=axis) / counts.sum(), "o", color="#d55e00", label="counted")
    ax.set(title=f"Flights to LAX, by {mode}", xlabel=mode, ylabel="share")
axes[0].legend()
print("most probable:", fit.most_probable())

# %%
# These are the cells that 200 parameters fit worst:

fit.plot.residuals(most=5)
