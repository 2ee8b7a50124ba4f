"""X as a dask array, larger than memory or on many machines."""
