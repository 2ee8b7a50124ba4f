"""Missing cells filled in without a basis: all interactions at once, each held back by a penalty."""
