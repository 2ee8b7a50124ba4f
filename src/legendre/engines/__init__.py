"""Engines compute what solvers need of the model at theta. One file an engine; `choose` picks one."""
