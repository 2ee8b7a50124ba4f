"""
Hidden kinds of people: latent classes
======================================

People answer eight questions with yes or no. Are there kinds of people who answer alike, although nobody wrote down the
kind? A hidden variable with a level for each kind explains the answers: given the kind, they are independent.
Statisticians call this a latent class model.
"""

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

rng = np.random.default_rng(0)
questions = ["reads", "cooks", "runs", "sails", "sings", "paints", "swims", "games"]
truth = np.array([[0.9, 0.7, 0.2, 0.1, 0.5, 0.8, 0.2, 0.2],
                  [0.2, 0.3, 0.9, 0.7, 0.2, 0.1, 0.9, 0.4],
                  [0.3, 0.1, 0.2, 0.1, 0.3, 0.2, 0.3, 0.9]])  # fmt: skip
kind = rng.choice(3, size=3000, p=[0.5, 0.3, 0.2])
answers = (rng.random((3000, 8)) < truth[kind]).astype(int)
X = ld.from_rows(answers, columns=list(range(8)), levels=2).toarray()

# %%
# How many kinds are there? More kinds always fit more closely. BIC, with its penalty for every parameter, says where to
# stop.

basis = ld.interactions([(k, 8) for k in range(8)])  # the hidden variable comes after the eight questions
fits = {}
for n in (2, 3, 4):
    fits[n] = ld.hidden(X, basis, n, restarts=4)
    bic = -2 * fits[n].log_likelihood + fits[n].n_params * np.log(X.sum())
    print(f"{n} kinds: {fits[n].n_params:2} parameters, log-likelihood {fits[n].log_likelihood:10.1f}, BIC {bic:9.1f}")

# %%
# BIC is lowest for three. The picture shows what each kind answers, and the truth. (Hidden kinds come in no particular
# order.)

fit = fits[3].fit
shares = np.asarray(fit.marginal(8))
order = np.argsort(-shares)
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
for ax, found in zip(axes, order, strict=True):
    yes = [np.asarray(fit.marginal([k], given={8: found}))[1] for k in range(8)]
    nearest = np.argmin(((truth - yes) ** 2).sum(axis=1))
    ax.bar(questions, yes, color="#0072b2", label="fitted")
    ax.plot(questions, truth[nearest], "o", color="#d55e00", label="true")
    ax.set_title(f"{shares[found]:.0%} of the people")
    ax.tick_params(axis="x", rotation=60)
axes[0].set(ylabel="share that says yes", ylim=(0, 1.25))
axes[0].legend(ncols=2)

# %%
# Of which kind is a person who reads, paints and sails?

person = (1, 0, 0, 1, 0, 1, 0, 0)
print(dict(zip(["first", "second", "third"], fits[3].posterior()[person][order].round(3).tolist(), strict=True)))
