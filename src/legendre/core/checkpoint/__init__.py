"""Checkpoints: long computations in a file, so that they can go on when the process has ended."""
