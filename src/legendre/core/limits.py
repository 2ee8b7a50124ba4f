"""Every size at which the library changes its method: the number, its unit, and what it was measured on.

Use them as ``limits.NAME``, so that a test or a user can change a limit in one place. Times were measured on two cores
of an AMD EPYC. Tolerances for rounding errors, and sizes of working blocks, are defaults in the code that uses them.
"""

from __future__ import annotations

# --- Which form: grids, lists of cells, cliques ----------------------------------------------------------------------

MOST_AXES = 32  # modes of an array that is formed: several NumPy functions take no more; beyond, lists and cliques
ALWAYS_A_GRID = 1 << 20  # merged cells (8 MiB) up to which a grid is formed even if Omega is a list of a few cells
CELLS_PER_POINT = 32  # merged cells for each cell of a listed Omega up to which a larger grid is no slower than a list
LARGEST_GRID = 1 << 25  # merged cells (256 MiB) up to which a grid is formed for listed supports and for finding faces
LARGEST_MASS = 1 << 24  # merged cells (128 MiB) up to which a sparse or distributed X is summed onto a merged grid
MERGING = 16  # cells of a dense X for each merged cell from which a merged grid is formed; else X is read slab by slab
MOST_FORMED = (
    1 << 31
)  # merged cells (16 GiB) up to which a grid of a model may be formed; beyond, only cliques and lists are possible
CLIQUES_FROM = 1 << 20  # merged cells from which tables over cliques are considered instead of the merged grid
CLIQUES_GAIN = 16  # how many times fewer cells the cliques' tables must have than the merged grid: each costs more
LARGEST_CLIQUES = 1 << 24  # cells of all tables over cliques together (128 MiB)
LARGEST_EFFECTS = 1 << 24  # cells of all tables of effects together, and sets of modes (128 MiB)
LONG_MODE = 1 << 20  # levels of a mode up to which the box of each level is tabulated; longer modes are searched
# --- Which engine ----------------------------------------------------------------------------------------------------

NUMPY_CELLS = 100_000
"""Merged cells up to which NumPy sweeps, in less time than the first compiled sweep compiles. Boxes of an X that
compiled code has read are swept by it while a basis grows, however few: 25,000 boxes of 300^3 cells and 50 parameters
take 0.08 s of processor time, in NumPy 0.18."""
SHORT_MODE = 8  # levels up to which a mode is short: if all modes are, compiled sweeps are mostly overhead
SHORT_MODE_CELLS = 1 << 24  # merged cells up to which NumPy sweeps a grid of short modes
LARGEST_MATRIX = 10_000  # parameters up to which a Fisher matrix is formed (800 MB) and factorised
KEPT_JOINS = 1_000  # parameters up to which a Fisher matrix (8 MB) is factorised even by a solver that needs none
# --- Which sums ------------------------------------------------------------------------------------------------------

ONE_THREAD = 2_000_000  # visits of cells below which starting threads costs more than it saves
# --- Which solver ----------------------------------------------------------------------------------------------------

SCALING_FROM = 300  # parameters from which cycles over margins are cheaper than Cholesky factors (50^3 two-body: 10 ms)
SCALING_CYCLES = 60  # cycles after which scaling counts as slow, and natural-gradient steps take over
DEPENDENT_CYCLES = 500  # cycles of scaling that are tried where parameters are dependent, before Fisher matrices
# --- What is decided before the first step ---------------------------------------------------------------------------

QUICK_SEARCH = 200_000  # merged cells times parameters up to which the search for a face takes less than a fit does
LARGEST_FACE_PROGRAM = 50_000_000  # cells times directions of the largest table that is searched for a face (400 MB)
TABLES_FROM = 1_000  # parameters from which sets of margins are examined for dependence without a matrix
PROOF_TILT = 0.5
"""Accept the fit as proof that no cell vanishes if the certifying distribution differs from Q by at most this share in
every cell; where cells vanish it tends to 1."""
LARGEST_PROGRAM = 400_000  # entries of the matrix of a linear program over cells, of a grid or of tables
# --- Reading X -------------------------------------------------------------------------------------------------------

COMPILED_CELLS = 1 << 19  # cells of X from which compiled code reads it, and it is held by reference, not copied
LARGEST_WRITTEN_OUT = 1 << 28  # cells of a sparse tensor that `toarray` writes out (2 GiB)
LARGEST_HELD = 1 << 26
"""Cells of a grid that is held where an answer needs every cell of it (512 MiB a copy): estimators, hidden modes, and
tasks that were given a sparse or a distributed X."""
# --- Tasks -----------------------------------------------------------------------------------------------------------

LARGEST_GROWN = 5_000  # parameters that a basis grows to: a step there takes seconds, and there are hundreds of rounds
FIRST_SIZE = 256  # the most parameters of a basis where the user names none: as many as one can look through
FIRST_WORK = 1 << 28
"""Cells times parameters up to which such a basis grows: 65 parameters on 92 x 112 x 40 x 10 cells take 13 s."""
FIRST_HELD_OUT = 1 << 21
"""Cells that are scored in a round, times modes, up to which a first look holds cells out in five parts: 256 parameters
on 92 x 112 x 67 cells with gaps 8 s. None are held out where a basis grows on boxes of them."""
FIRST_PAIRS = 1_000  # parameters of all pairs of modes up to which they are the first basis where none can grow
FIRST_PAIR_CELLS = 1 << 20  # cells of the grid up to which they are
MOST_LEAVES = 1_000
"""Levels of a mode whose tree is arranged leaf by leaf (1 s); more are put on one axis, without a number for each pair
(40,000 levels: 0.1 s, 140 MB). KL of 40 parameters on 4,043 aircraft by destination, on 8,000 levels of eight kinds:
1.87, 2.69; the same axis, found from all pairs, 1.86, 2.69; the tree of 1,000 groups along it, 1 s more, 1.81, 2.62."""
COARSE_BOXES = 1 << 19  # cells that are scored in a round (50 ms); of a larger X the corners of as many boxes
# cells times parameters (64 MiB) up to which hidden modes are fitted with Newton steps; and rows that lack values at
# all, kinds of rows counting like parameters (5,000 rows of ten binary variables, all pairs: 10 s)
LARGEST_FEATURES = 1 << 23
SINGLE_FACTOR = 512
"""Cells of a growing basis from which its factor, a preconditioner, is in float32 (faces, CPU s and RMSE against
float64: 800 cells 0.36, 24.82 against 0.42, 24.82; 2,000 cells 0.62, 21.07 against 0.86, 21.12; 4,000 cells 2.1, 17.97
against 3.5, 17.98). From 256 or 1,024 on it is no faster."""
INVERSE_KEPT = 1_000
"""Parameters of a grown basis from which the gap is bounded with the factor that it grew with, by a few products with
the Fisher matrix, not with a new factor (faces, CPU s of the last fit: 0.03 instead of 0.12 at 2,000 cells, 0.08
instead of 0.66 at 4,000)."""
