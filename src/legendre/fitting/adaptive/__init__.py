"""Bases that the data choose."""
