"""Inference for counts: Q as a log-linear model of a contingency table, tested."""
