"""From whatever the caller has to an Observation: X, checked, with its sample space."""
