"""The model: a sample space and a basis merged into boxes; the problem: a model and the data's expectations."""
