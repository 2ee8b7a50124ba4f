"""Checkpoints: long computations in a file, so that they can go on when the process has ended."""

from legendre.checkpoint.record import UNRECORDED as UNRECORDED
from legendre.checkpoint.record import Arrays as Arrays
from legendre.checkpoint.record import Record as Record
from legendre.checkpoint.record import digest as digest
from legendre.checkpoint.section import open_checkpoint as open_checkpoint
