"""One module or package for each verb other than decompose."""
