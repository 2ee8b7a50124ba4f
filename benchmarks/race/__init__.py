"""The race: the package beside the strongest libraries for each of its tasks; ``python -m benchmarks.race.run``."""
