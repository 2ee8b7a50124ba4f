"""Pictures: `plots` of every result, `effects` of decompositions; matplotlib is imported when one is drawn."""
