"""Prescribed margins: matrix scaling, raking, doubly stochastic tensors."""
