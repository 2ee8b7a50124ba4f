"""Pictures of results, one module each; matplotlib is imported when one is drawn."""
