"""What is decided apart from the steps of a solver: existence, rank and identifiability.

`faces`: which cells vanish at the minimum. `rank`: which parameters are independent. `identifiability`: which cells
outside the sample space (missing ones) have values that the observed cells determine.
"""
