"""Every size at which the library takes another way: the number, its unit, and what it was measured on.

Used as ``limits.NAME``, so that a test or a user changes a limit in one place. Times are of two cores of an AMD EPYC.
Numbers that are rounding errors, and sizes of working blocks, stay with the code that they belong to.
"""

from __future__ import annotations

# --- Which form: grids, lists of cells, cliques ----------------------------------------------------------------------

MOST_AXES = 32
"""Modes of an array that is formed. Several of NumPy's functions take no more; beyond, only lists and cliques work."""
ALWAYS_A_GRID = 1 << 20
"""Merged cells up to which a grid is formed even if Omega is a list of a few cells: 8 MiB, swept in milliseconds."""
CELLS_PER_POINT = 32
"""Merged cells for each cell of a listed Omega up to which a larger grid is formed: sweeps cost as much as the list."""
LARGEST_GRID = 1 << 25
"""Merged cells (256 MiB) up to which a grid is formed where a list or a slower way would do: listed supports, faces."""
LARGEST_MASS = 1 << 24
"""Merged cells (128 MiB) up to which X is summed onto a merged grid, where X itself is sparse or larger than memory."""
MERGING = 16
"""Cells of a dense X for each merged cell from which a merged grid is formed; less is read slab by slab instead."""
MOST_FORMED = 1 << 31
"""Merged cells (16 GiB) up to which a grid of a model may be formed at all."""
MOST_SWEPT = 1 << 40
"""Merged cells up to which a grid is swept slab by slab, never formed; beyond, only cliques sum over it."""
CLIQUES_FROM = 1 << 20
"""Merged cells from which tables over cliques are considered in place of the merged grid."""
CLIQUES_GAIN = 16
"""How many times fewer cells the cliques' tables must have than the merged grid: each of theirs costs more."""
CLIQUES_CARRY = 16
"""Cells through which one parameter is carried in the time of one cell of a message; a Fisher matrix carries all."""
LARGEST_CLIQUES = 1 << 24
"""Cells of all tables over cliques together (128 MiB)."""
QUICK_ELIMINATION_FROM = 256
"""Modes from which the search for an elimination order gives up early where tables would be too large anyway."""
LARGEST_ANSWER = 1 << 27
"""Cells of a table that a question to a fit on cliques may ask for (1 GiB)."""
LONG_MODE = 1 << 20
"""Levels of a mode up to which the box of each level is tabulated; longer modes are searched."""

# --- Which engine ----------------------------------------------------------------------------------------------------

NUMPY_CELLS = 100_000
"""Merged cells up to which NumPy sweeps: milliseconds, where the first compiled sweep waits for the compiler."""
NUMPY_BASIS = 1_500
"""Parameters up to which NumPy fills the Fisher matrix."""
SHORT_MODE = 4
"""Levels up to which a mode is short: compiled sweeps along modes that are all short are nothing but overhead."""
SHORT_MODE_CELLS = 1 << 24
"""Merged cells up to which NumPy sweeps a grid of short modes."""
LARGEST_MATRIX = 10_000
"""Parameters up to which a Fisher matrix is formed (800 MB) and factorised."""
COSTLY_SWEEP = 1 << 27
"""Merged cells from which one sweep takes seconds, so that none is made that is not needed."""
SLAB_ARRAYS = 20
"""Arrays of the size of a slab that the slab engine holds."""
GRID_ARRAYS = 5
"""Arrays of the size of the merged grid that the dense engine holds."""
KEPT_JOINS = 1_000
"""Parameters up to which the reference engine keeps the places of all joins between steps (4 MB)."""

# --- Which sums ------------------------------------------------------------------------------------------------------

WIDE_SLICE = 800
"""Cells of a slice from which adding whole slices is faster than NumPy's running sum."""
WIDE_FIRST_SLICE = 150
"""The same along the first mode, whose slices are contiguous (20^3: 9 us instead of 36)."""
FEW_PAIRS = 20_000_000
"""Pairs of a cell and a basis cell up to which lists are compared one by one, without waiting for the compiler."""
LARGEST_TREE = 1 << 26
"""Cells of the tree that the compiled sums over lists keep: the grid of all modes but the longest."""
MODERATE_SLAB = 1 << 22
"""Cells of a slab (32 MiB) up to which its memory does not matter when the mode to cut along is chosen."""
ONE_BLOCK = 200_000
"""Visits of cells below which compiled work is not cut into blocks."""
ONE_THREAD = 2_000_000
"""Visits of cells below which starting threads costs more than it saves."""
ONE_BLAS_THREAD = 2_000
"""Rows below which a matrix is factorised by one thread: on a busy machine two were up to 50 times slower."""
NO_BLAS_THREADS = 64
"""Rows below which LAPACK's Cholesky starts no thread by itself (bits compared at 1 and 2 threads, 8 to 96 rows)."""

# --- Which solver ----------------------------------------------------------------------------------------------------

SCALING_FROM = 300
"""Parameters from which cycles over margins are cheaper than Cholesky factors (50^3 two-body: 10 ms)."""
SCALING_CYCLES = 60
"""Cycles after which scaling is slow here, and natural-gradient steps take over."""
DEPENDENT_CYCLES = 500
"""Cycles of scaling that are tried where parameters are dependent, before steps with a Fisher matrix."""
SCALING_HORIZON = 100
"""Cycles left at the present rate from which natural-gradient steps with a Fisher matrix are cheaper."""
SCALING_HORIZON_CG = 1_000
"""The same where the Fisher matrix is not formed."""
LARGEST_NULL_SPACE = 4_000
"""Merged cells up to which the m-projection spans its tangent space with a dense matrix (128 MB)."""

# --- What is decided before the first step ---------------------------------------------------------------------------

LARGEST_FACE_PROGRAM = 50_000_000
"""Cells times directions of the largest linear program that is solved to find a face (400 MB)."""
TABLES_FROM = 1_000
"""Parameters from which sets of margins are examined for dependence without a matrix."""
MOST_PRODUCTS = 4_000
"""Products with the features that may be spent on that."""
MOST_DIRECTIONS = 300
"""Open directions up to which membership of a cone is decided."""
MOST_CONES = 3_000
"""Different cells whose membership of a cone is decided, one small least-squares problem each."""
PROOF_TILT = 0.5
"""Accept the fit as proof that no cell vanishes if the certifying distribution differs from Q by at most this share in
every cell; where cells vanish it tends to 1."""
SMALL_PROGRAM = 1_000
"""Cells times margins up to which balancing solves its linear program before the first step: milliseconds."""
SMALL_TRANSPORT = 20_000
"""The same for matrices, whose program is a flow."""
TRIAL_STEPS = 400
"""Steps of matrix balancing while it is not known whether there is an answer."""
LARGEST_BALANCE_PROGRAM = 400_000
"""Cells times margins of the largest linear program that decides which cells balancing can make positive."""
LARGEST_FLOW = 1 << 30
"""The largest sum of margins, as whole numbers, for which SciPy's maximum flow is used: it counts in 32 bits."""

# --- Reading X -------------------------------------------------------------------------------------------------------

COMPILED_CELLS = 1 << 19
"""Cells of X from which compiled code reads it, and it is held by reference; a smaller one is copied."""
COMPILED_TEXT = 1 << 21
"""Bytes of a text file from which compiled code reads it."""
LARGEST_WRITTEN_OUT = 1 << 28
"""Cells of a sparse tensor that `toarray` writes out (2 GiB)."""
LARGEST_HELD = 1 << 26
"""Cells of a grid that is held where an answer needs every cell of it (512 MiB a copy): estimators, hidden modes, and
tasks that were given a sparse or a distributed X."""
MOST_LISTED = 1 << 33
"""Cells of a basis that lists every one of them."""

# --- Tasks -----------------------------------------------------------------------------------------------------------

SHORTLIST = 20_000
"""Candidates of a growing basis that compete within a round."""
COARSE_BOXES = 1 << 18
"""Boxes on whose corners a basis grows where X is too large to score every cell of it."""
NAMED_BOXES = 16
"""Times as many boxes that cells named by the caller may cut."""
LARGEST_FEATURES = 1 << 23
"""Cells times parameters (64 MiB) up to which hidden modes are fitted with Newton steps."""
LARGEST_COSINES = 500
"""Levels of a mode up to which cosine waves are a matrix; longer modes take SciPy's transform."""
MOST_TERMS = 250
"""Terms, one variance each, that smoothing chooses between."""
ENOUGH_HELD_OUT = 3_000
"""Cells (or fibres) held out that are enough to choose the variances by."""
