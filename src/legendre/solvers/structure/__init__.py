"""What is decided before the first step: which cells vanish, which parameters are independent, what is identifiable.

`faces`: which cells vanish at the minimum. `rank`: which parameters are independent. `identifiability`: which cells
outside the sample space (missing ones) have values that the observed cells determine.
"""
