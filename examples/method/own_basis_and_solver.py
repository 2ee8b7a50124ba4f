"""
Your own basis and your own solver
==================================

A basis is a list of cells; a solver is a rule for a step. You can write either in a few lines, and everything else
works with it: certificates, effects, pictures, reports.
"""

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

# %%
# First, a basis. The table counts matches by the goals of both teams. We suspect that the two numbers of goals are
# independent, except that they are high together more often, or less often, than by chance. Parameters on the axes and
# at all (k, k) say just that: in cells at or above (k, k), both teams have at least k goals.

goals = np.array([[27, 29, 10, 4], [59, 53, 14, 12], [28, 32, 14, 12], [19, 14, 7, 4]])
both = [[k, k] for k in range(1, 4)]
names = {"names": ["home", "away"], "levels": [["0", "1", "2", "3+"]] * 2}
alone = ld.decompose(goals, "B1", **names)
fit = ld.decompose(goals, ld.B1() | both, **names)
print(ld.anova(alone, fit))
print(fit.parameters().sorted_by("kl_lost").summary(rows=4))
fit.plot.slices()

# %%
# A basis that depends on the data derives from `Basis` and lists its cells when it sees them. This one is the diagonal
# of any square table.


class Diagonal(ld.Basis):
    """Cells (k, ..., k)."""

    def select(self, data):
        """List them."""
        return np.array([[k] * len(data.shape) for k in range(1, min(data.shape))])


print(ld.decompose(goals, ld.B1() | Diagonal()).n_params)

# %%
# Second, a solver. It is given a target, which evaluates the model at theta, and carries a state from step to step.
# This one goes downhill with momentum. It need not care about stopping, the history, the certificate or the search for
# vanishing cells.


class Momentum(ld.solvers.Solver):
    """Gradient steps that keep part of their direction."""

    name = "momentum"
    patience = 200  # steps without progress that are allowed; momentum needs some

    def start(self, target, theta):
        """Begin at rest."""
        return ld.solvers.State(target.at(theta), memory=np.zeros_like(theta))

    def advance(self, target, state):
        """Go on in part of the old direction, and downhill."""
        move = 0.9 * state.memory - 1.5 * state.point.gradient
        return ld.solvers.State(target.at(state.point.theta + move), memory=move, step=1.5)


slow = ld.decompose(goals, ld.B1() | Diagonal(), solver=Momentum(), max_iter=5000)
quick = ld.decompose(goals, ld.B1() | Diagonal(), solver="natural")
print(slow)
print(f"largest difference from Newton's answer: {np.abs(slow.tensor() - quick.tensor()).max():.1e}")

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, made in {"momentum": slow, "natural (Newton)": quick}.items():
    ax.semilogy([max(step.residual, 1e-17) for step in made.history], label=name)
ax.set(xlabel="step", ylabel="max|eta - eta_hat|", title="Residual after each step")
ax.legend()
