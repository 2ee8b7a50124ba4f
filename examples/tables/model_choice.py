"""
Which model?
============

The answers of 1,841 car workers to six yes-or-no questions make a table of 64 cells. Models of different sizes can be
fitted to it. Here are three ways to choose among them.
"""

import matplotlib.pyplot as plt

import legendre as ld

X = ld.datasets.car_workers()
print(X.names)

# %%
# First, test one order of interactions after another. Pairs are needed, triples hardly, and nothing beyond.

steps = ld.anova(*(ld.decompose(X, basis) for basis in ("empty", *(ld.interactions(n) for n in (1, 2, 3, 4)))))
print(steps.summary())
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ld.geometry.plot_ladder(steps, ax)

# %%
# Second, start from independence and add parameters while each lowers the extended BIC. This criterion is strict: it
# keeps only what is beyond doubt. Lines of the graph are the pairs that it took; their numbers say how much KL(P, Q)
# rises without them.

grown = ld.decompose(X, ld.adaptive("bic", include="interactions(1)"))
print(grown.parameters().sorted_by("kl_lost").summary(rows=8))
grown.plot.graph(by="kl")

# %%
# Third, test a model that you have in mind against all triples, by their likelihood ratio. It has 14 parameters instead
# of 41, and the test finds little in what it leaves out.

sets = [("smoke", "physical", "protein"), ("smoke", "systolic", "protein"), ("mental", "physical"), ("family",)]
small = ld.decompose(X, ld.interactions(sets))
large = ld.decompose(X, ld.interactions(3))
print(ld.anova(small, large))
