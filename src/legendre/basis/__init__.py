"""Recipes for B: which cells carry a parameter."""
