"""Engines: what a solver may ask about the model at theta. One file an engine; choose picks one."""
