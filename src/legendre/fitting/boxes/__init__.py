"""Boxes that the data choose: products of intervals, grown a few at a time."""
