"""
The geometry of a projection
============================

Every positive table is a point. A model, here "rows and columns are independent", is a surface. To fit is to go down
to the surface at a right angle. And as with right triangles in school, the two short sides add up to the long one: here
KL takes the place of squares.
"""

import matplotlib.pyplot as plt
import numpy as np

import legendre as ld

P = np.array([[30, 10], [5, 25]])
fit = ld.decompose(P, ld.interactions(1))
R = np.outer([1, 4], [5, 2])  # another table of the model
triangle = ld.geometry.pythagoras(fit, R)
print(triangle)

# %%
# All tables of four cells make a tetrahedron; the independent ones are a surface in it. The way from P down to Q is
# straight when cells are mixed, and the way from Q to R stays in the surface.

figure = plt.figure(figsize=(12, 5), layout="constrained")
ld.geometry.plot_simplex(triangle, figure.add_subplot(1, 2, 1, projection="3d"))
ld.geometry.plot_triangle(triangle, figure.add_subplot(1, 2, 2))

# %%
# Pythagoras, in numbers: what P lacks to R is what it lacks to Q plus what Q lacks to R.

print(f"{triangle.kl_pq:.6f} + {triangle.kl_qr:.6f} = {triangle.kl_pq + triangle.kl_qr:.6f} = {triangle.kl_pr:.6f}")

# %%
# Nested models make a chain of right angles, so that KL is a sum: what single modes explain, what pairs add, and so
# on. Here for the people aboard the Titanic.

bases = ("empty", *(ld.interactions(k) for k in (1, 2, 3, 4)))
steps = ld.anova(*(ld.decompose(ld.datasets.titanic(), basis) for basis in bases))
print(steps.summary())
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ld.geometry.plot_ladder(steps, ax)
