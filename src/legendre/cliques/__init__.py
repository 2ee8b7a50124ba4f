"""Sums over product spaces of any order, in tables over the cliques of modes that a basis couples."""
