"""Views of a decomposition: tensors, the report, the file form."""
