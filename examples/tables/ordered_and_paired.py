"""
Ordered, paired and incomplete tables
=====================================

Fathers and sons by occupation, in three countries: both variables are ordered and have the same levels. Such tables
have models between independence and saturation. At the end: rates, cells that cannot occur, and rows that lack a value.
"""

import numpy as np

import legendre as ld

table = ld.datasets.social_mobility()
print(table.margin(["son", "father"]))

# %%
# Ordered levels. `uniform` has one log odds ratio for all neighbouring levels, in each country its own. It explains
# most of the association, but not that sons stay where their fathers are: `diagonal` adds a parameter for each level.

apart = ld.loglinear(table, "country*son + country*father")
uniform = apart.update(". + country:uniform(son, father)")
stay = uniform.update(". + diagonal(son, father)")
print(ld.anova(apart, uniform, stay))
print(stay.coef().to_frame().estimate.tail(8).round(3))

# %%
# Where does it fit badly? Adjusted residuals are about standard normal if the model holds.

stay.plot.residuals(most=5)

# %%
# Matched pairs. Are moves up as frequent as moves down (`symmetric`)? If the margins are allowed to differ
# (`quasi_symmetric`), what is left of the association is symmetric.

britain = table.toarray()[:, :, 1]
pair = {"names": ["son", "father"]}
both = [
    ld.loglinear(britain, formula, **pair) for formula in ("symmetric(son, father)", "quasi_symmetric(son, father)")
]
print(ld.anova(*both))

# %%
# Cells that cannot occur. Without the diagonal, are occupations of movers independent? (quasi-independence)

movers = ld.loglinear(britain, "son + father", support=~np.eye(5, dtype=bool), **pair)
print(movers)

# %%
# Rates. With `base=exposure`, R's `offset(log(exposure))`, coefficients are factors of a rate: here the number of sons
# in each occupation, for each son of a father in that occupation.

rates = ld.loglinear(britain.sum(axis=1), "A", base=britain.sum(axis=0))
print(rates.coef("sum", exp=True))

# %%
# Rows that lack a value are used by expectation-maximisation: each counts towards the margin that it has.

rows = {"smoke": ["yes", "no", "yes", "no", "yes", None], "ill": ["yes", "yes", "no", "no", None, "yes"]}
print(ld.loglinear(rows | {"n": [30, 20, 70, 180, 40, 15]}, "n ~ smoke*ill", missing="em"))
