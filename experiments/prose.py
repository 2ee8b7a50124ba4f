"""The sentences of docs/background/results.md that no row changes."""

from __future__ import annotations

INTRODUCTION = """\
# The paper's experiments, again

Written by `python -m experiments.run` from the rows in `experiments/results/`; do not edit. `make experiments` runs
what is missing (about an hour from scratch), `python -m experiments.run --ours` the rows of the package again, and
`python -m experiments.run --full` everything with more effort. Each of the paper's claims, in italics, is
followed by what we measured, also where the claim does not hold.
"""

ZEROS_KEPT = """\
With zeros kept, each term of Tucker is 0 outside the strokes of some images, and terms are added. A parameter of ours
multiplies whole corners of the tensor, so it takes cells in two neighbouring images to keep the background of one empty
and the stroke of the other bright. Similar images that are neighbours share such cells: *unordered* first arranges the
images by the data.
"""

HELD_OUT = """\
A fair coin assigns every event to one of two halves; methods are fitted to one and judged by the other. *KL* is that of
the fitted half, *held out* that of the other. A model that gives probability 0 to a cell where an event fell has an
infinite KL. So one more event, spread evenly over all cells, is added to every method's Q, ours and theirs; *missed* is
the share of the held-out events that fell where Q itself is 0. For other methods, the seed that is best on the held-out
half is shown, which favours them. *unordered* arranges zones; stations and days; carriers and destinations by the
fitted half.
"""

LEFT_OUT = """\
## What the numbers of parameters leave out

- **Which cells.** A basis is a set of cells, and a parameter of an adaptive basis, or of B3, comes with its cell. To
  store the model, an index is needed for each: log2 of the number of cells, 18 bits on faces and 19 on MNIST, in
  addition to 64 for theta. Nonnegative CP and Tucker need no such index, nor do B1 and B2(l).
- **The mask.** Where zeros are left out of Omega, the model is told which cells are 0. On MNIST that is one bit for
  each of 392,000 cells, as much as 6,125 parameters of 64 bits. So the figures also have the uniform distribution on
  the mask, without any parameter, the others multiplied by the same mask and rescaled to the total, and the experiment
  with zeros kept. Most other methods get the mask only after their fit; TensorLy's NN-CP can leave cells out of its
  fit, so it has a line of its own.
- **The arrangement.** Where levels are *unordered*, the data choose their order, which is information too and not
  among the parameters: log2 of the number of orders, {arrangements}.
- **Scales.** In nonnegative CP of rank n, n (order - 1) entries only move scale between factors, in Tucker m for each
  mode; they are counted as parameters, as in the paper. The total of X, one number, is not counted for ours.
- **The objective.** NN-CP and NN-Tucker minimise the squared error, so that RMSE favours them; ours and CP-APR
  minimise the divergence, so that KL favours these.
"""


READING = """\
## How to read the numbers

- Tables show at most four sizes; the figures, and the rows in `experiments/results/`, have all.
- *RMSE* is over all cells, as in the paper; *RMSE, X > 0*, judged and not shown, over the cells that are not 0; *KL*
  is the divergence of the normalised tensors, infinite where a reconstruction is 0 and X is not.
  Pixels run from 0 to 255.
- For other methods, the tables show the best seed; seconds are means over seeds. At most this many seeds x
  iterations were run on faces:
  {faces}.
  On each digit: {mnist}.
  TensorLy stops earlier when the relative error changes by less than 1e-7 (1e-6 on digits; 1e-8 with --full). CP-APR is
  slow on dense tensors and is often stopped by the clock, which is to its disadvantage; --full gives it ten minutes.
  The rows have the iterations.
- Linear algebra runs in one thread, ours and theirs; in Figure 4c in as many as there are cores.
- Other methods have the smallest rank with at least as many parameters as asked for, so they never have fewer than
  ours. The paper's basis is the largest of its form with at most as many, and has no row where even the smallest has
  more.
- Seconds are those of a single fit, `decompose` as a user calls it, with compiled code loaded; in Figure 4c each row is
  the fastest of several in a process of its own.
- Fits of ours that ran out of time or did not converge are in the rows, but in no table.
"""
