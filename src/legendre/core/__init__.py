"""What knows nothing of models: errors, limits, types, arguments, memory, files, sums over cells."""
