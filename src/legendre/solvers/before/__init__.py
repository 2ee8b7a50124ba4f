"""What is decided before the first step: faces, rank, identifiability."""
