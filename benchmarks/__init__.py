"""Benchmarks: every row carries its residual, its memory and what it was measured against."""
