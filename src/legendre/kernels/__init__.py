"""Compiled kernels. Only engines import them, and only for problems that are worth the wait for the compiler."""
