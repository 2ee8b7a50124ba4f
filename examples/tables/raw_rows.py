"""
From raw rows to a mosaic
=========================

A survey comes as rows, one for each person. Counted, the rows are a contingency table. A log-linear model says which
of its variables depend on each other, and a mosaic shows where a model is wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import legendre as ld

# %%
# The rows: here the students of `ld.datasets.hair_eye_color`, one row each, as they would come from a file.

students = ld.datasets.hair_eye_color()
cells = np.repeat(students.cells, students.values.astype(int), axis=0)
named = {name: np.asarray(students.levels[k])[cells[:, k]] for k, name in enumerate(students.names)}
rows = pd.DataFrame(named).sample(frac=1.0, random_state=0, ignore_index=True)
rows.head()

# %%
# Count them, with the levels in an order that makes sense.

order = {"hair": ["black", "brown", "red", "blond"], "eye": ["brown", "hazel", "green", "blue"]}
table = ld.from_rows(rows, ["hair", "eye", "sex"], levels=order)
table.margin(["hair", "eye"])

# %%
# Three models, written as in R: nothing depends on anything; hair and eyes do; all pairs do.

independent = ld.loglinear(table, "hair + eye + sex")
joint = ld.loglinear(table, "hair*eye + sex")
pairs = ld.loglinear(table, ".^2")
ld.anova(independent, joint, pairs)

# %%
# A tile for each cell, its area the number of students, its shade what the model of independence leaves: blond hair
# goes with blue eyes and black hair with brown ones, far more often than by chance.

figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
independent.plot.mosaic(["hair", "eye"], ax=ax)

# %%
# With hair and eyes together in the model, hardly a shade is left.

figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
joint.plot.mosaic(["hair", "eye", "sex"], ax=ax)

# %%
# What the chosen model says about one group: the eyes of people with blond hair, and the odds in its coefficients.

print(joint.fit.marginal("eye", given={"hair": "blond"}).round(3))
print(joint.coef(exp=True))
