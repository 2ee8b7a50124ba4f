"""From a tensor that has been read to a result: decompose, plan, fit."""
