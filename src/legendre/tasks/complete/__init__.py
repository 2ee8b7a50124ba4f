"""Missing cells filled in, where the observed cells determine them."""
