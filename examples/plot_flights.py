"""
Flights by labels
=================

All flights that left New York in 2013, by carrier, destination and hour.
"""

import legendre as ld

fit = ld.decompose(ld.datasets.flights(), ld.adaptive(50))
fit.plot.effects()
