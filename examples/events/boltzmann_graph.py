"""
A Boltzmann machine and its graph
=================================

Twelve sensors on two floors of a house switch on and off. A Boltzmann machine with all pairs is fitted exactly, by
convex optimisation instead of sampling. Its couplings show which sensors depend on each other.
"""

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

names = [f"{room}{floor}" for floor in (1, 2) for room in ("hall", "bath", "door", "lamp", "heat", "wind")]
rng = np.random.default_rng(4)
couplings = np.zeros((12, 12))
for i, j in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11), (0, 6), (5, 11)]:
    couplings[i, j] = couplings[j, i] = 1.6
bias = np.linspace(1.2, 2.6, 12)
rows = rng.integers(0, 2, (4000, 12))
for _ in range(60):  # 4,000 houses, each sensor drawn again and again given the others
    for k in range(12):
        rows[:, k] = rng.random(4000) < 1 / (1 + np.exp(bias[k] - rows @ couplings[k]))

# %%
# The fit has 78 parameters, on the grid of all 4,096 states.

machine = ld.BoltzmannMachine(2).fit(dict(zip(names, rows.T, strict=True)))
print(machine.decomposition_)
print(f"log Z = {machine.psi_:.4f}, mean log-likelihood {machine.score(rows):.4f}")

# %%
# The picture compares the couplings that were found with the true ones.

found = np.zeros((12, 12))
for (a, b), weight in machine.weights_.items():
    i, j = names.index(a), names.index(b)
    found[i, j] = found[j, i] = weight
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, values, title in zip(axes, [couplings, found], ["true", "found"], strict=True):
    picture = ax.imshow(values, cmap="PuOr_r", vmin=-2, vmax=2)
    ax.set_xticks(range(12), names, rotation=90)
    ax.set_yticks(range(12), names)
    ax.set_title(f"Couplings: {title}")
figure.colorbar(picture, ax=axes, label="weight")

# %%
# In the graph, the thickness of a line is the share of the pair's joint effect in the variance of log Q. Neighbours
# stand out.

figure, ax = plt.subplots(figsize=(8, 6.5), layout="constrained")
machine.plot.graph(ax)

# %%
# How probable is it that the lamp on the first floor is on, if its neighbours are on, or off?

print(machine.conditional({"door1": 1, "heat1": 1}, of="lamp1").round(3))
print(machine.conditional({"door1": 0, "heat1": 0}, of="lamp1").round(3))
