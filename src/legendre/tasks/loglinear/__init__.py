"""Log-linear models of contingency tables, in a statistician's words: a view on decompositions of counts."""
