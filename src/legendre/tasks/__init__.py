"""One package for each verb beside decompose."""
