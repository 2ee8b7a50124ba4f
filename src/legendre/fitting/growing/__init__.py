"""Bases that the data choose: cells or boxes, added a few at a time."""
