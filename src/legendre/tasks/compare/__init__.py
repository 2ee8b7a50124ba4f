"""Error against number of parameters: ours, and other libraries' decompositions."""
