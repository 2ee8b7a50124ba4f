"""
The certificate, explained
==========================

Most decompositions stop when they no longer improve, and nobody knows how far away the best answer is. A Legendre
decomposition is a convex problem: at the answer, the sums of the fit Q over certain blocks equal those of the data.
Every result states the largest difference, and anyone can check it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

X = ld.datasets.flights()
fit = ld.decompose(X, ld.interactions(1) | ld.B3(3, axis="carrier"), solver="natural")
print(fit.certificate().text())

# %%
# Each parameter has a block of cells. What is compared is the share of the flights in this block, in the data (eta_hat)
# and in Q (eta). They agree to the last digits.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.loglog(fit.eta_hat, fit.eta, ".", alpha=0.6)
left.axline((1e-3, 1e-3), (1, 1), color="0.6", linewidth=1)
left.set(title="Shares of blocks", xlabel="in the data", ylabel="in Q")
fit.plot.history(right)

# %%
# The other half of the certificate is ``fit.gap``: KL(P, Q) exceeds its minimum by at most this much. A
# fit that is cut short says so, and its gap shows how much there was to gain.


with warnings.catch_warnings():
    warnings.simplefilter("ignore", ld.ConvergenceWarning)
    hasty = ld.decompose(X, ld.interactions(1) | ld.B3(3, axis="carrier"), solver="natural", max_iter=3)
print(hasty.certificate().text())
print(f"KL above that of the full fit: {hasty.kl - fit.kl:.2e}")

# %%
# Zeros make certificates harder: it may be that no finite parameters attain the minimum. Then the answer is a limit,
# and the certificate says in which cells it is 0.

limit = ld.decompose([[5, 0, 3], [2, 0, 4], [0, 0, 1]], ld.interactions(1))
print(limit.status.name)
print(limit.certificate().text())

# %%
# Two starts and two solvers lead to one answer:

rng = np.random.default_rng(0)
Y = rng.poisson(4.0, size=(6, 5, 4)) + 1
one = ld.decompose(Y, "B1 + B2(2)")
two = ld.decompose(Y, "B1 + B2(2)", solver="natural-cg", start=rng.normal(size=one.n_params))
print(f"largest difference of a cell: {np.abs(one.tensor() - two.tensor()).max():.1e}")
