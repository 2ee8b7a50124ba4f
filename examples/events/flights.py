"""
Flights by labels
=================

All 336,776 flights that left New York in 2013, counted by carrier, destination and hour. Names go in, and names come
out: every question is asked by them.
"""

import matplotlib.pyplot as plt

import legendre as ld

X = ld.datasets.flights()
fit = ld.decompose(X, ld.adaptive(50))
fit

# %%
# What carrier, destination and hour do, and what they do in pairs.

fit.plot.effects()

# %%
# Ask. When do flights to Los Angeles leave, and with whom? Which flight is the most common one of all?

hours = fit.marginal("hour", given={"dest": "LAX"})
carriers = fit.marginal("carrier", given={"dest": "LAX"})
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
left.bar([str(hour) for hour in X.levels[2]], hours)
left.set(title="Flights to LAX, by hour", xlabel="hour", ylabel="share")
right.bar(list(X.levels[0]), carriers)
right.set(title="Flights to LAX, by carrier", xlabel="carrier")
print("most probable:", fit.most_probable())

# %%
# The cells that fifty parameters miss most, by name:

fit.plot.residuals(most=5)

# %%
# And what each parameter says, the most important first:

print(fit.parameters().sorted_by("kl_lost").summary(rows=6))
