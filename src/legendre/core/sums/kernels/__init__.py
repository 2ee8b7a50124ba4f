"""Compiled sweeps (numba), imported only where a problem is large enough: the import loads the compiler."""
