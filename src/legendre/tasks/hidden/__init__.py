"""Hidden modes, by expectation-maximisation."""
