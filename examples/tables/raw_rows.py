"""
From raw rows to a mosaic
=========================

A survey comes as rows, one for each person. Count the rows, and you have a contingency table. A log-linear model says
which of its variables depend on each other, and a mosaic shows where a model is wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import legendre as ld

# %%
# The rows are the students of `ld.datasets.hair_eye_color`, one row each, as they would come from a file.

students = ld.datasets.hair_eye_color()
cells = np.repeat(students.cells, students.values.astype(int), axis=0)
named = {name: np.asarray(students.levels[k])[cells[:, k]] for k, name in enumerate(students.names)}
rows = pd.DataFrame(named).sample(frac=1.0, random_state=0, ignore_index=True)
rows.head()

# %%
# Count them, with the levels in a meaningful order.

order = {"hair": ["black", "brown", "red", "blond"], "eye": ["brown", "hazel", "green", "blue"]}
table = ld.from_rows(rows, ["hair", "eye", "sex"], levels=order)
table.margin(["hair", "eye"])

# %%
# Three models, written as in R: all variables are independent; hair and eyes are associated; all pairs are.

independent = ld.loglinear(table, "hair + eye + sex")
joint = ld.loglinear(table, "hair*eye + sex")
pairs = ld.loglinear(table, ".^2")
ld.anova(independent, joint, pairs)

# %%
# The mosaic has a tile for each cell. Its area is the number of students; its shade is the residual of the model of
# independence. Blond hair goes with blue eyes, and black hair with brown eyes, far more often than by chance.

figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
independent.plot.mosaic(["hair", "eye"], ax=ax)

# %%
# With the association of hair and eyes in the model, the largest Pearson residual is 2.1.

figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
joint.plot.mosaic(["hair", "eye", "sex"], ax=ax)

# %%
# What does the chosen model say about the eyes of people with blond hair? And what are its coefficients, as odds?

print(joint.fit.marginal("eye", given={"hair": "blond"}).round(3))
print(joint.coef(exp=True))
