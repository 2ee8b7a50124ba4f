"""
Images of digits
================

Forty images of handwritten digits, 8 x 8 pixels each, are one tensor: row x column x image. How few parameters are
enough to recognise them? An adaptive basis grows by the parameters that improve the fit most.
"""

import matplotlib.pyplot as plt

import legendre as ld

X = ld.datasets.digits(4).toarray()
fit = ld.decompose(X, ld.adaptive(400), names=["row", "column", "image"])
print(fit)

# %%
# ``fit.at(n)`` is the exact fit with the n most important cells. With 50 parameters, the images share a broad shape;
# with 200, the digits can be told apart; with 400, they look like the data.

sizes = [50, 100, 200, 400]
figure, axes = plt.subplots(len(sizes) + 1, 10, figsize=(9, 5.2), layout="constrained")
stacks = [X, *(fit.at(n).tensor() for n in sizes)]
for row, (stack, name) in enumerate(zip(stacks, ["data", *sizes], strict=True)):
    for column in range(10):
        axes[row, column].imshow(stack[:, :, 4 * column], cmap="cividis", vmin=0, vmax=16)
        axes[row, column].set(xticks=[], yticks=[])
    axes[row, 0].set_ylabel(str(name), rotation=0, ha="right", va="center")
figure.suptitle("Digits 0 to 9: the data, and fits with 50 to 400 parameters for 2,560 cells")

# %%
# This is how KL, error and BIC changed as the basis grew.

fit.plot.path()
