"""
The geometry of a projection
============================

Every positive table is a point. A model, such as "rows and columns are independent", is a surface. To fit the model is
to drop a perpendicular from the data to the surface. Pythagoras' theorem holds, with KL in place of squared lengths.
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
# All tables of four cells make a tetrahedron; the independent ones are a surface in it. The m-geodesic from P down to Q
# is a straight line, a mixture of the two tables. The e-geodesic from Q to R stays in the surface.

corners = np.array([[0, 0, 0], [1, 0, 0], [0.5, 3**0.5 / 2, 0], [0.5, 3**0.5 / 6, (2 / 3) ** 0.5]])
p, q, r = (table.ravel() for table in (triangle.P, triangle.Q, triangle.R))
t = np.linspace(0, 1, 60)

figure = plt.figure(figsize=(12, 5), layout="constrained")
space = figure.add_subplot(1, 2, 1, projection="3d")
for i in range(4):
    for j in range(i):
        space.plot(*corners[[i, j]].T, color="0.75", linewidth=0.8)
    space.text(
        *(corners[i] + 0.12 * (corners[i] - corners.mean(axis=0))), f"[{i // 2}, {i % 2}]", color="0.45", ha="center"
    )
share = np.linspace(0.001, 0.999, 40)
rows, columns = (np.stack([1 - share, share], axis=-1)[index] for index in (np.s_[:, None], np.s_[None, :]))
independent = (rows[..., :, None] * columns[..., None, :]).reshape(40, 40, 4)
space.plot_surface(*np.moveaxis(independent @ corners, -1, 0), color="#92c5de", alpha=0.35, linewidth=0, shade=False)
for line, color, label in (
    (ld.geometry.m_geodesic(p, q, t), "#b2182b", "m-geodesic from P to Q"),
    (ld.geometry.e_geodesic(q, r, t), "#2166ac", "e-geodesic from Q to R"),
):
    space.plot(*(line @ corners).T, color=color, linewidth=2.2, label=label)
for name, point in (("P", p), ("Q", q), ("R", r)):
    space.scatter(*(point @ corners), color="black", s=18)
    space.text(*(point @ corners + 0.05), name, fontsize=12)
space.computed_zorder = False  # the surface is clear enough to see what lies behind it
space.view_init(elev=24, azim=46)
space.set_box_aspect((1, 3**0.5 / 2, (2 / 3) ** 0.5), zoom=1.2)
space.set_axis_off()
space.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2, fontsize=8, frameon=False)
ld.geometry.plot_triangle(triangle, figure.add_subplot(1, 2, 2))

# %%
# In numbers, the divergence from P to R is that from P to Q plus that from Q to R:

print(f"{triangle.kl_pq:.6f} + {triangle.kl_qr:.6f} = {triangle.kl_pq + triangle.kl_qr:.6f} = {triangle.kl_pr:.6f}")

# %%
# Nested models make a chain of right angles, so KL is a sum: what single modes explain, what pairs add, and so on. This
# is the chain for the people aboard the Titanic.

bases = ("empty", *(ld.interactions(k) for k in (1, 2, 3, 4)))
steps = ld.anova(*(ld.decompose(ld.datasets.titanic(), basis) for basis in bases))
print(steps.summary())
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ld.geometry.plot_ladder(steps, ax)
