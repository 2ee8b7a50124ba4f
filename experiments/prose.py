"""The sentences of docs/background/results.md that no row changes."""

from __future__ import annotations

INTRODUCTION = """\
# The paper's experiments, again

Written by `python -m experiments.run` from the rows in `experiments/results/`; do not edit. `make experiments` runs
what is missing. Each of the paper's claims, in italics, is followed by what we measured.
"""

ZEROS_KEPT = """\
With zeros kept, a parameter of ours multiplies corners of the tensor, so it takes cells in two neighbouring images to
keep the background of one empty and the stroke of the other bright. Similar images that are neighbours share such
cells: *unordered* first arranges the images.
"""

HELD_OUT = """\
A fair coin assigns every event to one of two halves; methods are fitted to one and judged by the other. One more event,
spread evenly over all cells, is added to every method's Q, so that no KL is infinite. For other methods, the seed that
is best on the held-out half counts, which favours them. *unordered* arranges levels by the
fitted half.
"""

LEFT_OUT = """\
## What the numbers of parameters leave out

- **Which cells.** A parameter of an adaptive basis, or of B3, comes with its cell: an index of 18 bits on faces and 19
  on MNIST, beside 64 for theta. CP, Tucker, B1 and B2(l) need none.
- **The mask.** Where zeros are left out of Omega, the model knows which cells are 0: on MNIST as much as 6,125
  parameters. So the figures also have the uniform distribution on the mask, and the others multiplied by it.
- **The arrangement.** The order of *unordered* levels is information too: {arrangements}.
- **Scales.** In nonnegative CP of rank n, n (order - 1) entries only move scale between factors; they are counted as
  parameters, as in the paper.
- **The objective.** NN-CP and NN-Tucker minimise the squared error, so that RMSE favours them; ours and CP-APR
  minimise the divergence, so that KL favours these.
"""


READING = """\
## How to read the numbers

- Tables show at most four sizes and the best seed of other methods; the figures, and the rows in
  `experiments/results/`, have more.
- *RMSE* is over all cells, as in the paper; *KL* is the divergence of the normalised tensors, infinite where a
  reconstruction is 0 and X is not. Pixels run from 0 to 255.
- At most this many seeds x iterations were run on faces: {faces}. On each digit: {mnist}. TensorLy stops earlier when
  the relative error changes by less than 1e-7 (1e-6 on digits). The clock often stops CP-APR.
- Linear algebra runs in one thread, in Figure 4c in all.
- Other methods have the smallest rank with at least as many parameters as asked for. The paper's basis is the largest
  of its form with at most as many.
"""
