"""Readers of sparse tensors: lists of cells, tables of events, text files, other libraries' sparse arrays."""
