"""What comes back: the decomposition and its certificate, and all views of it."""
